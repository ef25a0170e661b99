"""OCI image layouts (image-spec, image-layout.md). The same input gives the same bytes."""

import hashlib
import io
import json
import pathlib
import tarfile

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
USER = "65532:65532"
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
REF_NAME = "org.opencontainers.image.ref.name"


def archive(files):
    """A tar archive that depends on its files only."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        directories = sorted({str(parent) for path in files for parent in pathlib.Path(path).parents} - {"."})
        for path in directories:
            entry = tarfile.TarInfo(path)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for path, (content, mode) in sorted(files.items()):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return out.getvalue()


class Layout:
    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        (self.directory / "blobs/sha256").mkdir(parents=True, exist_ok=True)

    def path(self, digest):
        return self.directory / "blobs" / digest.replace(":", "/")

    def blob(self, media_type, content):
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        self.path(digest).write_bytes(content)
        return {"mediaType": media_type, "digest": digest, "size": len(content)}

    def json(self, media_type, value):
        return self.blob(media_type, json.dumps(value, sort_keys=True, indent=1).encode())

    def tag(self, name, descriptor):
        """Makes a manifest or an index the content of the layout."""
        named = {**descriptor, "annotations": {REF_NAME: name}}
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [named]}
        (self.directory / "index.json").write_text(json.dumps(index, sort_keys=True, indent=1))
        (self.directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
