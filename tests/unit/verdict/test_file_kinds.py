"""What a path says of what a change to it can break."""

import pytest

from tests.linear import takes_linear_time
from worker.verdict.dependencies import changes_dependency, find_changed_install
from worker.verdict.diffs import is_ci, is_dependency, is_docs, may_choose_runner, may_configure

CASES = [
    (".gitlab-ci.yml", "ci"),
    ("ci/build.gitlab-ci.yml", "ci"),
    (".gitlab/ci/test.yml", "ci"),
    (".gitlab/issue_templates/bug.md", "docs"),
    (".tekton/push.yaml", "ci"),
    ("app/ci.py", ""),
    ("poetry.lock", "dependency"),
    ("web/package.json", "dependency"),
    ("requirements-dev.txt", "dependency"),
    ("requirements/testing.txt", "dependency"),
    ("docs/requirements/index.md", "docs"),
    ("images/Dockerfile.dev", "dependency"),
    ("Dockerfile", "dependency"),
    ("app/dockerfile.py", ""),
    ("docs/index.md", "docs"),
    ("README.rst", "docs"),
    ("lib/CMakeLists.txt", ""),
    ("app/sum.py", ""),
    ("", ""),
]


@pytest.mark.parametrize(("path", "kind"), CASES)
def test_a_path_is_of_one_kind(path: str, kind: str) -> None:
    kinds = {"ci": is_ci(path), "dependency": is_dependency(path), "docs": is_docs(path)}
    assert [name for name, is_it in kinds.items() if is_it] == ([kind] if kind else [])


@pytest.mark.parametrize(
    ("path", "line", "changes"),
    [
        ("Cargo.toml", "[[bench]]", False),
        ("Cargo.toml", 'serde = "1.0"', True),
        ("Cargo.toml", 'tokio = { version = "1", features = ["full"] }', True),
        ("package.json", '    "typescript": "^5.8.0"', True),
        ("package.json", '    "test": "vitest run"', False),
        ("pyproject.toml", '    "click>=8.2",', True),
        ("pyproject.toml", "line-length = 100", False),
        ("pyproject.toml", 'version = "1.2.0"', False),
        ("pom.xml", "      <version>3.2</version>", True),
        ("build.gradle", '    implementation "a:b:1"', True),
        ("build.gradle", "    useJUnitPlatform()", False),
        ("build.gradle", '    maxHeapSize = "1g"', False),
        ("build.gradle", '    jvmTarget = "17"', False),
        ("build.gradle", '    toolVersion = "10.3"', True),
        ("package.json", '    "prepare": "git config core.hooksPath .hooks"', False),
        ("package.json", '    "tide": "git+ssh://git@host.example/tide.git"', True),
        ("uv.lock", "anything", True),
        ("Dockerfile", "RUN make", False),
        ("Dockerfile", "FROM debian:13", True),
        ("Dockerfile", "COPY --from=build /a /a", True),
        ("Dockerfile", "RUN apt-get update && apt-get install -y curl", True),
        ("Dockerfile", "HEALTHCHECK CMD true", False),
        ("images/Dockerfile.dev", "ARG GO_VERSION=1.26", True),
        ("Dockerfile", 'LABEL team="a"', False),
        ("src/app.py", 'import "x"', False),
    ],
)
def test_a_manifest_changes_what_is_installed_only_in_some_of_its_lines(
    path: str, line: str, changes: bool
) -> None:
    assert changes_dependency(path, f"@@ -1 +1,2 @@\n a\n+{line}\n") is changes


_INSTALL = " RUN apt-get install -y \\\n     git"


@pytest.mark.parametrize(
    ("diff", "line"),
    [
        ("@@ -1,2 +1,2 @@\n FROM a\n-USER b\n+USER c\n", 0),
        ("@@ -1,2 +1,2 @@\n FROM a\n-RUN apt install b\n+RUN apt install b c\n", 2),
        (f"@@ -1,4 +1,5 @@\n FROM a\n{_INSTALL} \\\n+    jq \\\n     vim\n", 4),
        (f"@@ -1,4 +1,5 @@\n FROM a\n{_INSTALL} \\\n+    # install more\n     vim\n", 0),
        (f"@@ -1,3 +1,4 @@\n FROM a\n{_INSTALL}\n+USER b\n", 0),
        ("@@ -9,2 +9,3 @@\n     git \\\n+    jq \\\n     vim\n", 10),
        ("@@ -9,2 +9,3 @@\n     vim\n+USER b\n CMD c\n", 0),
        ("@@ -1,3 +1,2 @@\n FROM a\n-RUN pip install b\n USER c\n", 2),
        ("@@ -1,1 +1,2 @@\n FROM a\n+# FROM b\n", 0),
    ],
)
def test_a_dockerfile_installs_in_instructions_of_several_lines(diff: str, line: int) -> None:
    assert find_changed_install(diff) == line
    assert changes_dependency("Dockerfile", diff) is bool(line)


POM = """\
@@ -2,7 +2,7 @@
 <modelVersion>4.0.0</modelVersion>
   <groupId>com.example</groupId>
   <artifactId>ferry</artifactId>
-  <version>3.4.0</version>
+  <version>3.4.1</version>

 <properties>
"""
PARENT = """\
@@ -4,9 +4,9 @@
   <parent>
     <groupId>com.example</groupId>
     <artifactId>harbour</artifactId>
-    <version>1.0</version>
+    <version>1.1</version>
   </parent>
   <artifactId>ferry</artifactId>
   <packaging>jar</packaging>
"""
MANIFEST = """\
@@ -1,5 +1,5 @@
 {
   "name": "ferry",
-  "version": "2.3.0",
+  "version": "2.4.0",
   "private": true,
"""
NPM_LOCK = """\
@@ -1,11 +1,11 @@
 {
   "name": "ferry",
-  "version": "1.12.0",
+  "version": "1.13.0",
   "lockfileVersion": 3,
   "packages": {
     "": {
       "name": "ferry",
-      "version": "1.12.0",
+      "version": "1.13.0",
       "devDependencies": {
"""
CARGO_LOCK = """\
@@ -10,7 +10,7 @@
 [[package]]
 name = "ferry"
-version = "0.3.0"
+version = "0.4.0"
 dependencies = [
"""
COMPOSER = """\
@@ -20,6 +20,6 @@
         "name": "tide/tables",
-        "version": "1.0",
+        "version": "2.0",
         "dist": {
"""


@pytest.mark.parametrize(
    ("path", "diff", "changes"),
    [
        ("pom.xml", POM, False),
        ("pom.xml", POM + POM.replace("properties", "scope").replace("modelVersion", "x"), True),
        ("pom.xml", PARENT, True),
        ("pom.xml", POM.replace("-  <version>3.4.0</version>\n", ""), True),
        ("package.json", MANIFEST, False),
        ("package.json", MANIFEST.replace(" {\n", ' {"dependencies": {\n', 1), True),
        ("package.json", '@@ -1 +1 @@\n-{"version": "1", "engines": {"node": ">=20"}}\n'
         '+{"version": "2", "engines": {"node": ">=20"}}', False),
        ("package.json", '@@ -1 +1 @@\n-{"version": "1", "engines": {"node": ">=20"}}\n'
         '+{"version": "2", "engines": {"node": ">=22"}}', True),
        ("package.json", '@@ -1,2 +1,2 @@\n-{"version": "1",\n+{"version": "2",\n "x": 1}', False),
        ("package-lock.json", NPM_LOCK, False),
        ("package-lock.json", NPM_LOCK.replace('""', '"node_modules/tide"'), True),
        ("package-lock.json", NPM_LOCK + '+        "tide": "^2.0.0"\n', True),
        ("package-lock.json", '@@ -9 +9 @@\n-    "version": "1"\n+    "version": "2"', True),
        ("composer.json", MANIFEST, False),
        ("composer.json", COMPOSER, True),
        ("composer.json", COMPOSER.replace("@@\n", "@@\n       {\n"), True),
        ("composer.json", MANIFEST + COMPOSER.replace("@@\n", "@@\n       {\n"), True),
        ("Cargo.lock", CARGO_LOCK, False),
        ("Cargo.lock", CARGO_LOCK.replace("dependencies = [", ""), False),
        ("Cargo.lock", CARGO_LOCK.replace(" dependencies = [\n", ""), True),
        ("Cargo.lock", CARGO_LOCK.replace(" dependencies = [", "@@ -30,2 +30,2 @@"), True),
        ("Cargo.lock", CARGO_LOCK.replace("dependencies = [", 'source = "registry+x"'), True),
        ("Cargo.lock", CARGO_LOCK + '+ "tide",\n', True),
    ],
)  # fmt: skip
def test_the_version_of_the_project_itself_is_no_dependency(
    path: str, diff: str, changes: bool
) -> None:
    assert changes_dependency(path, diff) is changes


IN = {
    "pyproject.toml": "[{}]\n name = 1",
    "setup.cfg": "[{}]\n name = 1",
    "Cargo.toml": "[{}]\n",
    "package.json": '{{\n   "{}": {{',
    "composer.json": '{{\n   "{}": {{',
    "pom.xml": "<plugin>\n <artifactId>a</artifactId>\n <{}>",
}


@pytest.mark.parametrize(
    ("path", "within", "line", "changes"),
    [
        ("pyproject.toml", "tool.mypy", 'python_version = "3.11"', False),
        ("pyproject.toml", "tool.pytest.ini_options", 'minversion = "7.0"', False),
        ("pyproject.toml", "tool.poetry.dependencies", 'click = "^8.2"', True),
        ("pyproject.toml", "dependency-groups", '    "click>=8.2",', True),
        ("pyproject.toml", "project", '    "click>=8.2",', True),
        ("pyproject.toml", "build-system", 'requires = ["hatchling>=1.2"]', True),
        ("setup.cfg", "tox:tox", 'minversion = "4"', False),
        ("Cargo.toml", "profile.release", 'strip = "1"', False),
        ("Cargo.toml", "workspace.dependencies", 'serde = "1"', True),
        ("Cargo.toml", "target.'cfg(unix)'.dependencies", 'libc = "0.2"', True),
        ("package.json", "scripts", '    "a": "1 && 2"', False),
        ("package.json", "jest", '    "testTimeout": "30"', False),
        ("package.json", "devDependencies", '    "jest": "^30"', True),
        ("package.json", "engines", '    "node": ">=22"', True),
        ("composer.json", "scripts", '    "a": "2"', False),
        ("composer.json", "require-dev", '    "a/b": "^2"', True),
        ("pom.xml", "configuration", "<rule><version>3.6</version></rule>", False),
        ("pom.xml", "configuration>\n <path", "<version>3.6</version>", True),
        ("pom.xml", "executions", "<version>3.6</version>", True),
    ],
)  # fmt: skip
def test_the_settings_of_a_tool_are_no_dependency(
    path: str, within: str, line: str, changes: bool
) -> None:
    head = "".join(f" {each}\n" for each in IN[path].format(within).split("\n"))
    assert changes_dependency(path, f"@@ -1,9 +1,9 @@\n{head}+{line}\n") is changes
    assert changes_dependency(path, f"@@ -1,9 +1,8 @@\n{head}-{line}\n") is changes


def test_what_only_ends_in_a_hunk_encloses_what_is_above() -> None:
    lines = " <a/>\n+<version>3.6</version>\n </rule>\n </{}>\n"
    assert not changes_dependency("pom.xml", "@@ -9,3 +9,4 @@\n" + lines.format("configuration"))
    assert changes_dependency("pom.xml", "@@ -9,3 +9,4 @@\n" + lines.format("executions"))


def test_a_line_whose_place_in_a_manifest_is_not_shown_may_be_a_dependency() -> None:
    assert changes_dependency("package.json", '@@ -9,2 +9,3 @@\n   "b": "^1",\n+  "a": "^2",\n }')
    assert changes_dependency("pyproject.toml", '@@ -9 +9,2 @@\n a = "1"\n+b = "2"\n')


def test_a_hostile_diff_is_read_in_no_time() -> None:
    for part in ('"version":', "{", "<a", "<version>", "</a>", '"a": {', 'version = "'):
        for path in ("pom.xml", "package-lock.json", "Cargo.lock"):
            assert changes_dependency(path, "@@ -1 +1 @@\n+" + part * 20_000) in (True, False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "begin", "part"),
    [
        ("Cargo.lock", "", '+version = ""\n'),
        ("Cargo.lock", "", '-version = ""\n+version = ""\n'),
        ("package.json", "+{", '"version":"",'),
        ("package.json", "", '+{"a":[\n'),
        ("pom.xml", "", "+<a>\n"),
        ("pom.xml", "", "+</a>\n"),
        ("package-lock.json", "+{", '"":{"version":"",'),
        ("composer.json", "@@ -1 +1 @@\n+{", '"version":"",'),
    ],
)
def test_a_hostile_diff_takes_linear_time(path: str, begin: str, part: str) -> None:
    def work(diff: str) -> None:
        changes_dependency(path, diff)

    assert takes_linear_time(work, part, 100_000, begin)


def test_a_manifest_whose_diff_is_not_known_may_change_what_is_installed() -> None:
    assert changes_dependency("Cargo.toml", "")


@pytest.mark.parametrize(
    ("path", "may"),
    [
        (".gitlab-ci.yml", True),
        ("build/pipeline.yml", True),
        ("deploy/ci/JOBS.YAML", True),
        ("Dockerfile", True),
        ("images/Containerfile.dev", True),
        ("ci/run.sh", True),
        ("app/sum.py", False),
        ("docs/yml.md", False),
    ],
)
def test_any_yaml_file_and_any_image_may_decide_how_jobs_run(path: str, may: bool) -> None:
    assert may_configure(path) is may


@pytest.mark.parametrize(
    ("path", "may"),
    [
        (".gitlab-ci.yml", True),
        ("pipelines/jobs.yml.j2", True),
        (".gitlab-ci.yaml.erb", True),
        ("pipelines/Jobs.jsonnet", True),
        ("Dockerfile", False),
        ("images/Containerfile.dev", False),
        ("docs/yml.md", False),
        ("app/yaml/sum.py", False),
    ],
)
def test_yaml_and_what_it_is_generated_from_may_choose_a_runner(path: str, may: bool) -> None:
    assert may_choose_runner(path) is may
