"""`sandpiper settings`: prints every setting with its description."""

import click

from worker.settings import reference


@click.command()
@click.option("--markdown", is_flag=True, help="The reference instead, with the variables.")
def command(markdown: bool) -> None:
    """Print a whole sandpiper.yaml: every setting at its default, with what it does."""
    click.echo(reference.format_reference() if markdown else reference.format_example(), nl=False)
