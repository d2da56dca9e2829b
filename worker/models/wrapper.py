"""The base class of models that wrap another one."""

from worker.conversation.model import Model, Reply, Request


class ModelWrapper:
    """A `Model` that passes everything on to `model`; subclasses change parts of it."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        """See Model."""
        return self._model.name

    @property
    def context_tokens(self) -> int:
        """See Model."""
        return self._model.context_tokens

    @property
    def binds_thinking(self) -> bool:
        """See Model."""
        return self._model.binds_thinking

    @property
    def keeps_cache_without_tools(self) -> bool:
        """See Model."""
        return self._model.keeps_cache_without_tools

    def reply(self, request: Request) -> Reply:
        """See Model."""
        return self._model.reply(request)
