"""`sources:`: what may be read besides the merge request's project."""

from urllib.parse import urlsplit

from pydantic import Field

from worker.settings.base import URL, Part, ProjectGlobs, Secret, say_form


class TenantSettings(Part):
    """One entry of `sources.konflux.projects:`."""

    namespace: str = Field(
        pattern=r"^[a-z0-9][-a-z0-9]{0,62}$",
        json_schema_extra=say_form("expected the name of a namespace"),
        description="Where the project's pipelines run.",
    )
    repository: str = Field(
        default="",
        pattern=r"^[a-z0-9A-Z]?[-._a-z0-9A-Z]{0,62}$",
        json_schema_extra=say_form("expected the name of a Repository object"),
        description="The name of its Repository object.",
    )


class KonfluxSettings(Part):
    """`sources.konflux:`. Off without `url`."""

    url: URL = Field(default="", description="The Kubernetes API; empty: off.")
    archive_url: URL = Field(default="", description="KubeArchive's API, if there is one.")
    ui_url: URL = Field(
        default="",
        description="Konflux's pages, as browsers reach them: notes then link the logs that they "
        "quote. What Pipelines as Code's `custom-console-url-pr-details` has before `/ns/`.",
    )
    ca_file: str = Field(default="", description="Certificates to trust instead of the usual ones.")
    projects: dict[str, TenantSettings] = Field(
        default={}, description="Where each project's pipelines run, by its path in GitLab."
    )
    token: Secret = Field(default="", description="Reads pipeline runs and logs of Konflux.")


class TestingFarmSettings(Part):
    """`sources.testing_farm:`. Off without `repositories`."""

    url: URL = Field(default="https://api.testing-farm.io", min_length=1, description="Its API.")
    results_url: URL = Field(
        default="https://artifacts.dev.testing-farm.io",
        min_length=1,
        description="Where its results are.",
    )
    repositories: dict[str, tuple[str, ...]] = Field(
        default={},
        description="Globs of the git URLs that a project's requests test, by its path in GitLab; "
        "none: off.",
    )
    token: Secret = Field(default="", description="Reads requests of Testing Farm.")


class SourceSettings(Part):
    """`sources:`."""

    also_read: ProjectGlobs = Field(
        default=(),
        description="Globs of the projects that every session may read besides its own; their "
        "jobs are shown where they run downstream, their files where a CI configuration includes "
        "them. Only those whose code and job logs are open to everybody who may read the note: "
        "public ones, and internal ones where the note is not public. Members of the merge "
        "request's project are no members of another one, so what a project keeps for its members "
        "is not read.",
    )
    konflux: KonfluxSettings = KonfluxSettings()
    testing_farm: TestingFarmSettings = TestingFarmSettings()

    def list_link_places(self) -> frozenset[str]:
        """Return where notes may link to in these systems: hosts, with their URL's path if any."""
        farm = self.testing_farm
        pages = (self.konflux.ui_url, farm.results_url if farm.repositories else "")
        parts = (urlsplit(page) for page in pages if page)
        return frozenset(f"{each.netloc}{each.path.rstrip('/')}" for each in parts)
