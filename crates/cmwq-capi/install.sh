#!/bin/sh
# Installs the C library: headers, libcmwq.a, libcmwq.so with versioned symbols, libcmwq.pc and the manual.
#
#   install.sh [--prefix DIR] [--destdir DIR] [--archive FILE]
#
# Everything lies below the prefix, and with --destdir below that folder, for making packages.
#
# The shared library is linked from the archive, because only a linker that the compiler does not give a version
# script of its own takes ours (libcmwq.map). Without --archive the archive is built first.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
prefix=/usr/local
destdir=
archive=

while [ $# -gt 0 ]; do
	case $1 in
	--prefix) prefix=$2 ;;
	--destdir) destdir=$2 ;;
	--archive) archive=$2 ;;
	*)
		echo "usage: $0 [--prefix DIR] [--destdir DIR] [--archive FILE]" >&2
		exit 2
		;;
	esac
	shift 2
done

root=$here/../..
if [ -z "$archive" ]; then
	cargo build --release --package cmwq-capi --manifest-path "$root/Cargo.toml"
	archive=${CARGO_TARGET_DIR:-$root/target}/release/libcmwq.a
fi
version=$(sed -n '/^\[workspace\.package\]/,/^$/s/^version = "\(.*\)"/\1/p' "$root/Cargo.toml")
major=${version%%.*}

# The headers have a folder of their own: their names are those of the kernel's.
include=$destdir$prefix/include/cmwq
lib=$destdir$prefix/lib
mkdir -p "$include" "$lib/pkgconfig"
cp -R "$here/include/." "$include/"
cp "$archive" "$lib/libcmwq.a"
${CC:-cc} -shared -o "$lib/libcmwq.so.$version" \
	-Wl,--whole-archive "$lib/libcmwq.a" -Wl,--no-whole-archive \
	-Wl,--version-script="$here/libcmwq.map" -Wl,-soname,"libcmwq.so.$major" \
	-Wl,--gc-sections -Wl,-z,relro,-z,now -lpthread -ldl -lm
ln -sf "libcmwq.so.$version" "$lib/libcmwq.so.$major"
ln -sf "libcmwq.so.$major" "$lib/libcmwq.so"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$here/libcmwq.pc.in" >"$lib/pkgconfig/libcmwq.pc"

# Each name of a page that is not the page's own becomes a link to it.
for page in "$here"/man/*.[37]; do
	file=${page##*/}
	section=${file##*.}
	folder=$destdir$prefix/share/man/man$section
	mkdir -p "$folder"
	cp "$page" "$folder/$file"
	sed -n '/^\.SH NAME$/,/ \\-/{/^\.SH/d;s/ \\-.*//;s/,$//;p;}' "$page" | while read -r name; do
		[ "$name.$section" = "$file" ] || echo ".so man$section/$file" >"$folder/$name.$section"
	done
done
