#!/usr/bin/env bash
# Makes an OCI image of the programs and the libraries that they need, and nothing else: no shell, no package manager.
# It runs as user 65532, and with a read-only root if output_dir is in a volume.
#   scripts/image.sh [FILE]     writes an OCI archive (out/tern.oci.tar): podman load -i FILE, skopeo copy oci-archive:FILE ...
# TERN_BUILD_DIR=build/cpu uses the programs of that build instead of building them.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022  # Others than the maker use what this makes.

to=$(realpath -m "${1:-out/tern.oci.tar}")
command -v buildah >/dev/null || { echo 'image: buildah is missing; install it (apt-get install buildah)' >&2; exit 69; }

# Two images of one commit are the same; a tree without git, as one from an archive, has the time of its making.
commit=$(git rev-parse HEAD 2>/dev/null || echo unknown)
commit_time=$(git show -s --format=%ct HEAD 2>/dev/null || date +%s)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root/opt" "$root/etc" "$work/volume/job" "$(dirname "$to")"
install -d -m 1777 "$root/tmp"
scripts/package.sh "$root/opt/tern"

# The C library, which a package leaves to the machine, at the places that the programs name.
for library in $(ldd "$root"/opt/tern/bin/* | awk '$2 == "=>" {print $3} $1 ~ "^/.*ld-linux" {print $1}' | sort -u); do
  [[ $library == "$root"* ]] || install -D -m 755 "$(realpath "$library")" "$root$library"
done
# Names of hosts; the user for programs that ask for their own name.
printf 'passwd: files\nhosts: files dns\n' >"$root/etc/nsswitch.conf"
printf 'root:x:0:0::/:/none\ntern:x:65532:65532::/job:/none\n' >"$root/etc/passwd"
printf 'root:x:0:\ntern:x:65532:\n' >"$root/etc/group"

storage=(--root "$work/store" --runroot "$work/run" --storage-driver vfs)
image=$(buildah "${storage[@]}" from scratch)
buildah "${storage[@]}" copy --quiet "$image" "$root" / >/dev/null
# A new volume of a container gets the owner and the mode of the folder in the image.
buildah "${storage[@]}" copy --quiet --chown 65532:65532 "$image" "$work/volume" / >/dev/null
buildah "${storage[@]}" config --user 65532:65532 --workingdir /job --volume /job --env PATH=/opt/tern/bin \
  --entrypoint '["tern"]' --cmd '' \
  --label org.opencontainers.image.title=tern \
  --label org.opencontainers.image.description='distributed training of convolutional networks with quantized gradients' \
  --label org.opencontainers.image.licenses=Apache-2.0 \
  --label "org.opencontainers.image.revision=$commit" \
  --label "org.opencontainers.image.version=$("$root/opt/tern/bin/tern" --version | sed -n '1s/.*version \([^ ,]*\).*/\1/p')" "$image"
buildah "${storage[@]}" commit --quiet --timestamp "$commit_time" "$image" localhost/tern:latest >/dev/null
rm -f "$to"
buildah "${storage[@]}" push --quiet localhost/tern:latest "oci-archive:$to:localhost/tern:latest"
echo "image: $to, $(du -h "$to" | cut -f1), unpacked $(du -sh "$root" | cut -f1)"
