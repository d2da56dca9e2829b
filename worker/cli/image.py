"""`sandpiper image`: builds the image that sandboxes are made of."""

from functools import partial

import click

from sandbox.base import SandboxError
from sandbox.build import compute_image_tag, ensure_image
from sandbox.spec import DEFAULT_IMAGE
from worker.errors import SandpiperError


@click.group()
def command() -> None:
    """The image that sandboxes are made of (`build`)."""


@command.command("build", short_help="Build the image, into the Docker engine.")
@click.option(
    "--tag",
    "name",
    default=DEFAULT_IMAGE,
    show_default=True,
    metavar="NAME",
    help="What to call it; sandbox.image then names it.",
)
@click.option("--print-tag", is_flag=True, help="Print the tag of its content; build nothing.")
def _build(name: str, print_tag: bool) -> None:
    """Build the sandbox's image into the Docker engine (DOCKER_HOST), unless it is there.

    It needs no settings, no clone and no docker command. What it does is said on stderr; the last
    line, alone on stdout, is the tag by which this very content is known.

    It is built on $SANDPIPER_BASE, which should name a digest, or on debian:bookworm-slim. Where no
    registry answers, a minimal Debian is made by debootstrap, which has to be installed, as root.
    """
    if print_tag:
        click.echo(compute_image_tag())
        return
    try:
        tag = ensure_image(partial(click.echo, err=True), name)
    except SandboxError as error:
        raise SandpiperError(str(error)) from error
    click.echo(f"{name} is on the engine", err=True)
    click.echo(tag)
