#!/usr/bin/env python3
"""Writes the software bill of materials of the binary: CycloneDX 1.5 as JSON, on standard output.

Usage: tools/sbom.py > sbom.json

It has every package that a build of `wheelwright` compiles, on any target, with its license, the digest that Cargo.lock pins, and what
it depends on. Tests and benches are left out. The same lock file gives the same bytes; SOURCE_DATE_EPOCH sets the time. No network is
needed once `cargo fetch` has been run.
"""

import datetime
import json
import os
import pathlib
import subprocess
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def metadata():
    command = [os.environ.get("CARGO", "cargo"), "metadata", "--format-version", "1", "--locked"]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def compiled(root, nodes):
    """The packages that the root needs to be built, and what each of them needs."""
    needs, waiting = {}, [root]
    while waiting:
        package = waiting.pop()
        if package in needs:
            continue
        used = [d["pkg"] for d in nodes[package]["deps"] if any(k["kind"] != "dev" for k in d["dep_kinds"])]
        needs[package] = used
        waiting.extend(used)
    return needs


def reference(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, checksums):
    entry = {
        "type": "library",
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        "purl": reference(package),
    }
    if package.get("license"):
        entry["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        entry["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package.get("repository"):
        entry["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return entry


def main():
    found = metadata()
    packages = {package["id"]: package for package in found["packages"]}
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    root = found["resolve"]["root"]
    needs = compiled(root, nodes)
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    checksums = {(p["name"], p["version"]): p["checksum"] for p in lock["package"] if "checksum" in p}
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    about = {"component": {**component(packages[root], checksums), "type": "application"}}
    if epoch:
        about["timestamp"] = datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc).isoformat()
    used = sorted((packages[i] for i in needs if i != root), key=reference)
    edges = {reference(packages[i]): sorted({reference(packages[d]) for d in below}) for i, below in needs.items()}
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": about,
        "components": [component(package, checksums) for package in used],
        "dependencies": [{"ref": ref, "dependsOn": edges[ref]} for ref in sorted(edges)],
    }
    print(json.dumps(bill, indent=2))


if __name__ == "__main__":
    main()
