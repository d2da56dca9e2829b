"""`sandpiper settings`: prints every setting with its description."""

import json

import click

from worker.settings import reference
from worker.settings.tree import Settings
from worker.settings.validation import make_schema


@click.command()
@click.option("--markdown", is_flag=True, help="The reference instead, with the variables.")
@click.option("--schema", is_flag=True, help="The JSON Schema instead, for editors.")
def command(markdown: bool, schema: bool) -> None:
    """Print a whole sandpiper.yaml: every setting at its default, with what it does.

    Editors complete and check the file by its schema, beside it:
    sandpiper settings --schema >sandpiper.schema.json
    """
    if markdown and schema:
        raise click.UsageError("--markdown or --schema, not both")
    if schema:
        made = {"title": "sandpiper.yaml", **make_schema(Settings)}
        click.echo(json.dumps(made, indent=2, ensure_ascii=False))
        return
    click.echo(reference.format_reference() if markdown else reference.format_example(), nl=False)
