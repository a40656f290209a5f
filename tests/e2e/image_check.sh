#!/usr/bin/env bash
# Trains a job in a container of the OCI image, with a read-only root, no capabilities, and a network of its own:
#   image_check.sh BUILD_DIR      as root; needs buildah, umoci, runc and Debian's dataset-fashion-mnist
# The image is limited to 120 MB.
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'runc --root "$work/runc" delete --force tern_check 2>/dev/null || true; rm -rf "$work"' EXIT
TERN_BUILD_DIR=$1 scripts/image.sh "$work/tern.oci.tar"
mkdir "$work/layout"
tar -xf "$work/tern.oci.tar" -C "$work/layout"
umoci unpack --image "$work/layout:localhost/tern:latest" "$work/bundle"
owner=$(stat -c '%u:%g %a' "$work/bundle/rootfs/job")
[ "$owner" = '65532:65532 755' ] || { echo "image_check: /job belongs to $owner, expected 65532:65532 755" >&2; exit 1; }
size_mb=$(($(du -sb "$work/bundle/rootfs" | cut -f1) / 1000000))

install -d -o 65532 -g 65532 "$work/job"
install -m 644 configs/lenet_fashion.yaml "$work/job/job.yaml"
python3 - "$work" <<'END'
import json
import sys

work = sys.argv[1]
path = f"{work}/bundle/config.json"
with open(path) as file:
    config = json.load(file)
config["root"]["readonly"] = True
config["process"] |= {
    "terminal": False, "noNewPrivileges": True,
    "args": ["tern", "run", "job.yaml", "--set", "train.steps=200"],
    "capabilities": {kind: [] for kind in ("bounding", "effective", "permitted", "ambient")}}
assert config["process"]["user"]["uid"] == 65532, config["process"]["user"]
assert config["process"]["cwd"] == "/job", config["process"]["cwd"]
config["mounts"] = [mount for mount in config["mounts"] if mount["type"] != "cgroup"] + [
    {"destination": "/job", "type": "bind", "source": f"{work}/job", "options": ["rbind", "rw"]},
    {"destination": "/usr/share/datasets", "type": "bind", "source": "/usr/share/datasets", "options": ["rbind", "ro"]}]
with open(path, "w") as file:
    json.dump(config, file)
END
runc --root "$work/runc" run --bundle "$work/bundle" tern_check | tee "$work/run.log"
grep -q 'test accuracy' "$work/run.log"
test -s "$work/job/out/lenet_fashion/weights.safetensors"
echo "image_check: image of $size_mb MB trains with a read-only root and no capabilities"
[ "$size_mb" -le 120 ] || { echo "image_check: expected at most 120 MB" >&2; exit 1; }
