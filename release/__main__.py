"""`python -m release`: a release in one command, checked before anything is changed and before anything is uploaded.

    python -m release 0.2.0              make the release in this checkout; nothing is uploaded
    python -m release 0.2.0 --upload     and upload the packages to the registry that twine is configured for
    python -m release 0.2.0 --sign KEY   and sign the files' digests with this key of OpenSSH
    python -m release                    rehearse: build and check what HEAD holds; nothing is changed

The version is written, committed and built in a clone. Only when every check has passed does this checkout get that
commit and its tag: what is tagged is what was built and tried. The steps are in docs/releasing.md.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from release import bills, build, changelog, contents, install_lines, signing, tryout, version
from release.commands import ReleaseError, git
from release.distributions import DISTRIBUTIONS

GREEN = Path(".cache/green")
"""Where .ci/run writes the commit that it passed for."""


def main(arguments: list[str], checkout: Path = version.CHECKOUT) -> int:
    """Release the checkout; the exit code."""
    given = _parse(arguments)
    try:
        files = _release(given, checkout)
    except ReleaseError as failure:
        print(f"release: {failure}\nrelease: stopped; the checkout is as it was", file=sys.stderr)
        return 1
    return _upload(files, checkout) if given.upload else 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m release", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("version", nargs="?", help="as 0.2.0; without it, HEAD is built and checked as it is")
    parser.add_argument("--upload", action="store_true", help="upload the packages with twine at the end")
    parser.add_argument("--sign", metavar="KEY", type=Path, help="sign SHA256SUMS with this key of OpenSSH")
    parser.add_argument("--no-isolation", action="store_true", help="build with this environment's backend")
    given = parser.parse_args(arguments)
    if given.upload and given.version is None:
        parser.error("--upload needs a version: what is rehearsed is not uploaded")
    return given


def _release(given: argparse.Namespace, checkout: Path) -> list[Path]:
    """Make the release, or rehearse it; the files in dist/. Raises ReleaseError, and has changed nothing then."""
    _tools_are_there()
    if given.version is not None:
        _may_be_released(given.version, checkout)
        _is_green(checkout)
    with tempfile.TemporaryDirectory(prefix="odradek-release-") as name:
        work = Path(name)
        clone = work / "clone"
        git(work, "clone", "--quiet", "--no-hardlinks", str(checkout), str(clone))
        if given.version is not None:
            _prepare(clone, given.version, checkout)
        released = version.declared(clone)
        made = _build_and_check(clone, work, isolated=not given.no_isolation)
        sums = signing.write_sums(made, work)
        made.append(sums)
        if given.sign is not None:
            _say(f"signing {sums.name}")
            made.append(signing.sign(sums, given.sign.expanduser().absolute()))
        target = checkout / "dist" / released
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        kept = [Path(shutil.copy2(path, target)) for path in made]
        if given.version is not None:
            _take_over(clone, given.version, checkout)
    _report(kept, released, checkout, is_rehearsal=given.version is None)
    return kept


def _upload(files: list[Path], checkout: Path) -> int:
    """Hand the packages to twine; the exit code. The release itself is made by then."""
    _say("uploading")
    command = [sys.executable, "-m", "twine", "upload", *map(str, _packages(files))]
    if subprocess.run(command, check=False).returncode == 0:
        return 0
    print(
        "release: twine did not upload everything. The commit and its tag are made, so only upload again, with\n"
        f"--skip-existing if the registry has some of the files:\n  {_upload_command(files, checkout)}",
        file=sys.stderr,
    )
    return 1


def _tools_are_there() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("build", "twine", "check_wheel_contents") if find_spec(name) is None]
    if missing:
        raise ReleaseError(
            f"{', '.join(missing)} not installed: use `make release`, or pip install -e '.[dev]'"
        )


def _may_be_released(wanted: str, checkout: Path) -> None:
    if git(checkout, "status", "--porcelain"):
        raise ReleaseError("the checkout has changes that are not committed: commit or stash them")
    branch = git(checkout, "rev-parse", "--abbrev-ref", "HEAD")
    if branch != "main":
        raise ReleaseError(f"releases are made from main, and {branch} is checked out")
    if version.numbers_of(wanted) < version.numbers_of(version.declared(checkout)):
        raise ReleaseError(f"{wanted} is older than {version.declared(checkout)}, which the checkout has")
    if git(checkout, "tag", "--list", f"v{wanted}"):
        raise ReleaseError(f"the tag v{wanted} is there already: choose a newer version")


def _is_green(checkout: Path) -> None:
    """`.ci/run` passed for HEAD, or passes now."""
    if _passed(checkout) != git(checkout, "rev-parse", "HEAD"):
        _say("running .ci/run, which has not passed for this commit; it takes long")
        if subprocess.run([str(checkout / ".ci" / "run")], cwd=checkout, check=False).returncode != 0:
            raise ReleaseError(".ci/run failed: main has to be green")
        if git(checkout, "status", "--porcelain"):
            raise ReleaseError(".ci/run changed files of the checkout: commit what it generated")


def _passed(checkout: Path) -> str:
    path = checkout / GREEN
    return path.read_text().strip() if path.exists() else ""


def _prepare(clone: Path, wanted: str, checkout: Path) -> None:
    """The release's commit, in the clone."""
    install_lines.declare_published(clone)
    version.write(clone, version=wanted)
    path = clone / "CHANGELOG.md"
    today = datetime.datetime.now(datetime.UTC).date()
    path.write_text(changelog.released(path.read_text(), wanted, today))
    for name in ("user.name", "user.email"):
        if value := git(checkout, "config", "--default", "", "--get", name):
            git(clone, "config", name, value)
    git(clone, "commit", "--quiet", "--all", "--message", f"Release {wanted}")


def _build_and_check(clone: Path, work: Path, *, isolated: bool) -> list[Path]:
    """The files to upload. Raises where any check fails."""
    _say("building sdists and wheels, twice")
    made = build.packages(clone, work / "dist", isolated=isolated)
    wrong = build.differences(made, build.packages(clone, work / "again", isolated=isolated))
    _say("building charts" if shutil.which("helm") else "Helm is not installed: no charts are built")
    charts = build.charts(clone, work / "charts")
    _say("checking contents and metadata")
    wrong += [f"{path} has an old copy: python -m release.version" for path in version.stale(clone)]
    wrong += check(made, clone)
    if wrong:
        raise ReleaseError("\n  ".join(["what would be uploaded is not right:", *wrong]))
    _say("installing each wheel in a fresh environment, and trying it")
    sites = tryout.all_of([path for path in made if path.suffix == ".whl"], work / "environments")
    _say("writing what each is made of")
    return made + charts + _write_bills(sites, clone, work)


def _write_bills(sites: Mapping[str, Path], checkout: Path, target: Path) -> list[Path]:
    """The bill of each distribution, by the environment in which it was tried."""
    released, seconds = version.declared(checkout), int(build.commit_time(checkout))
    written = []
    for name, site in sites.items():
        bill = target / f"{name}-{released}{bills.BILL_SUFFIX}"
        bill.write_text(bills.write_bill(name, released, bills.python_components(site), seconds=seconds))
        written.append(bill)
    return written


def check(made: list[Path], checkout: Path) -> list[str]:
    """The problems of the sdists and wheels that were built of `checkout`."""
    released, names = version.declared(checkout), {path.name: path for path in made}
    wrong: list[str] = []
    for distribution in DISTRIBUTIONS:
        stem = f"{distribution.file_name}-{released}"
        kinds = {f"{stem}-py3-none-any.whl": contents.wheel, f"{stem}.tar.gz": contents.sdist}
        for name, checks in kinds.items():
            path = names.pop(name, None)
            wrong += (
                [f"{name} was not built"] if path is None else checks(path, checkout, distribution, released)
            )
        wrong += contents.odd_files(checkout, distribution)
    wrong += [f"{name} was built, and is no file of a release" for name in names]
    return wrong + contents.checked_by_tools(made)


def _take_over(clone: Path, wanted: str, checkout: Path) -> None:
    git(checkout, "pull", "--quiet", "--ff-only", str(clone), "HEAD")
    git(checkout, "tag", "--annotate", f"v{wanted}", "--message", f"Odradek {wanted}")


def _report(files: list[Path], released: str, checkout: Path, *, is_rehearsal: bool) -> None:
    print(f"\nBuilt and checked, in {files[0].parent}:")
    for path in files:
        print(f"  {path.stat().st_size:>9,} bytes  sha256 {build.digest(path)}  {path.name}")
    if version.repository(checkout) is None:
        print("\nNo repository address is declared in pyproject.toml: the packages' pages link to none.")
    if is_rehearsal:
        print("\nThis was a rehearsal of HEAD. To release: make release VERSION=…")
        return
    charts = [os.path.relpath(path, checkout) for path in files if path.suffix == ".tgz"]
    print("\nmain has the commit and its tag. Nothing was uploaded yet; these commands do it:")
    print("  git push --follow-tags origin main")
    print(f"  {_upload_command(files, checkout)}")
    for chart in charts:
        print(f"  helm push {chart} oci://REGISTRY/charts")
    print(f"  TAG={released} make images")
    for name in ("broker", "operator", "pipeline"):
        print(
            f"  buildah push localhost/odradek/{name}:{released} docker://REGISTRY/odradek/{name}:{released}"
        )


def _upload_command(files: list[Path], checkout: Path) -> str:
    paths = (os.path.relpath(path, checkout) for path in _packages(files))
    return f".venv/bin/python -m twine upload {' '.join(paths)}"


def _packages(files: list[Path]) -> list[Path]:
    """The sdists and wheels: charts go to another registry, and bills and digests beside the release's notes."""
    return [path for path in files if path.name.endswith((".whl", ".tar.gz"))]


def _say(text: str) -> None:
    print(f"release: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
