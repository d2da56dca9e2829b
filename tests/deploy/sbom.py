"""What is in an image, as a CycloneDX bill of materials: its Debian and its Python packages.

The image itself is asked, without network, so nothing is listed that is not in it.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import docker
from cyclonedx.model import Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

FOLDER = Path(__file__).parents[2] / "build"
DPKG = (
    "/bin/sh",
    "-c",
    ". /etc/os-release; dpkg-query --show --showformat "
    r'"\${Package}\t\${Version}\t\${Architecture}\t$ID-$VERSION_ID\n"',
)
PYTHON = (
    "/opt/sandpiper/bin/python",
    "-c",
    "import json, importlib.metadata as m;"
    "print(json.dumps(sorted({(d.name, d.version) for d in m.distributions()})))",
)
"""Only the worker's image has packages beside Debian's."""


def bill(tag: str) -> Bom:
    """The image's bill. Raises docker's errors."""
    with closing(docker.from_env()) as client:
        image = client.images.get(tag)
        name, _, version = tag.rpartition(":")
        bom = Bom()
        root = Component(
            type=ComponentType.CONTAINER,
            name=name,
            version=version,
            bom_ref=tag,
            properties=[Property(name="docker:image:id", value=image.id)],
        )
        bom.metadata.component = root
        packages = [*_debian(client, tag), *_python(client, tag)]
        bom.components.update(packages)
        bom.register_dependency(root, packages)
        return bom


def write(tag: str) -> Path:
    """The bill as a file, named by the image's name."""
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / f"{tag.partition(':')[0]}.cdx.json"
    file.write_text(JsonV1Dot6(bill(tag)).output_as_string(indent=2), encoding="utf-8")
    return file


def _debian(client: docker.DockerClient, tag: str) -> Iterator[Component]:
    for line in _output(client, tag, DPKG).splitlines():
        name, version, architecture, distribution = line.split("\t")
        where = {"arch": architecture, "distro": distribution}
        yield _component(PackageURL("deb", "debian", name, version, where))


def _python(client: docker.DockerClient, tag: str) -> Iterator[Component]:
    if not client.images.get(tag).tags[0].startswith("sandpiper:"):
        return
    for name, version in json.loads(_output(client, tag, PYTHON)):
        yield _component(PackageURL("pypi", None, name, version))


def _component(purl: PackageURL) -> Component:
    text = purl.to_string()
    return Component(
        type=ComponentType.LIBRARY, name=purl.name, version=purl.version, purl=purl, bom_ref=text
    )


def _output(client: docker.DockerClient, tag: str, command: tuple[str, ...]) -> str:
    found: bytes = client.containers.run(
        tag,
        list(command[1:]),
        entrypoint=command[0],
        network_mode="none",
        read_only=True,
        cap_drop=["ALL"],
        mem_limit="256m",
        remove=True,
    )
    return found.decode()
