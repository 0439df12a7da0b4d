#!/bin/sh
# Installs the C library and the cmwq command. `install.sh --help` says how.
#
# The shared library is linked from the archive, because only a linker that the compiler does not give a version
# script of its own takes ours (libcmwq.map).
set -eu
# Others are to read what is installed, whatever the caller's own files, and those that are copied, are to be.
umask 022
readable() {
	chmod -R u=rwX,go=rX "$@"
}

usage() {
	cat <<'END'
usage: install.sh [OPTION...]

Installs libcmwq (headers, libcmwq.a, libcmwq.so with versioned symbols, libcmwq.pc, the manual, licences) and, where
it is built here or given, the command cmwq with its manual pages and completions.

  --prefix DIR     where everything lies [/usr/local]
  --libdir DIR     where the libraries lie [PREFIX/lib]; on Debian PREFIX/lib/x86_64-linux-gnu
  --destdir DIR    put everything below DIR, for making packages
  --archive FILE   this libcmwq.a; else it is built
  --command FILE   this cmwq; else it is built, unless an archive is given
  --no-command     the library alone
  --no-strip       leave symbols and debug information in
  --help           print this

From the environment: CC, CFLAGS, LDFLAGS, STRIP, OBJCOPY, CARGO, CARGO_TARGET_DIR. What is built is built with the dependencies
of Cargo.lock. Exit codes: 0 it is installed, 1 something failed, 2 wrong usage.
END
}

wrong() {
	echo "install.sh: $1" >&2
	echo "Try 'install.sh --help'." >&2
	exit 2
}

here=$(cd "$(dirname "$0")" && pwd)
prefix=/usr/local
libdir=
destdir=
archive=
command=
with_command=yes
strip=${STRIP:-strip}
objcopy=${OBJCOPY:-objcopy}

while [ $# -gt 0 ]; do
	option=$1
	value=
	case $option in
	--*=*)
		value=${option#*=}
		option=${option%%=*}
		;;
	--prefix | --libdir | --destdir | --archive | --command)
		[ $# -ge 2 ] || wrong "$option needs a value"
		value=$2
		shift
		;;
	esac
	shift
	case $option in
	--prefix) prefix=$value ;;
	--libdir) libdir=$value ;;
	--destdir) destdir=$value ;;
	--archive) archive=$value ;;
	--command) command=$value ;;
	--no-command) with_command= ;;
	--no-strip) strip=: ;;
	--help | -h)
		usage
		exit 0
		;;
	*) wrong "there is no option '$option'" ;;
	esac
	case $option=$value in
	--prefix= | --libdir= | --archive= | --command=) wrong "$option needs a value" ;;
	--prefix=/* | --libdir=/*) ;;
	--prefix=* | --libdir=*) wrong "$option must begin with /, and '$value' does not" ;;
	esac
done
libdir=${libdir:-$prefix/lib}
for file in "$archive" "$command"; do
	[ -z "$file" ] || [ -f "$file" ] || wrong "there is no file '$file'"
done
# A name alone would be looked for in PATH.
case $command in '' | */*) ;; *) command=./$command ;; esac
[ -z "$archive" ] || [ -n "$command" ] || with_command=
# CC may be several words.
compiler=${CC:-cc}
command -v "${compiler%% *}" >/dev/null 2>&1 || {
	echo "install.sh: there is no C compiler '${CC:-cc}'; CC names another" >&2
	exit 1
}
if [ "$strip" != : ] && ! command -v "$strip" >/dev/null 2>&1; then
	echo "install.sh: there is no '$strip': nothing is stripped" >&2
	strip=:
fi

# In the repository the command is beside; a packed crate is the library alone.
root=$here/../..
if grep -q '^\[workspace\.package\]' "$root/Cargo.toml" 2>/dev/null; then
	version=$(sed -n '/^\[workspace\.package\]/,/^$/s/^version = "\(.*\)"/\1/p' "$root/Cargo.toml")
else
	root=$here
	with_command=${command:+yes}
	version=$(sed -n '/^\[package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$root/Cargo.toml")
fi
# Counts breaks of the binary interface; see abi.txt.
soname=libcmwq.so.$(cat "$here/soname")
built=${CARGO_TARGET_DIR:-$root/target}/release

if [ -z "$archive" ]; then
	"${CARGO:-cargo}" build --locked --release --package cmwq-capi --manifest-path "$root/Cargo.toml"
	archive=$built/libcmwq.a
fi
if [ -n "$with_command" ] && [ -z "$command" ]; then
	"${CARGO:-cargo}" build --locked --release --package cmwq-cli --manifest-path "$root/Cargo.toml"
	command=$built/cmwq
fi

# The headers have a folder of their own: their names are those of the kernel's.
include=$destdir$prefix/include/cmwq
lib=$destdir$libdir
doc=$destdir$prefix/share/doc/libcmwq
mkdir -p "$include" "$lib/pkgconfig" "$doc"
cp -R "$here/include/." "$include/"
readable "$include"
# Never into a file that may be in use: a program goes on with the one that it has.
rm -f "$lib/libcmwq.a" "$lib/libcmwq.so.$version"
# CC, CFLAGS and LDFLAGS are lists.
# shellcheck disable=SC2086
$compiler ${CFLAGS-} -shared -o "$lib/libcmwq.so.$version" \
	-Wl,--whole-archive "$archive" -Wl,--no-whole-archive \
	-Wl,--version-script="$here/libcmwq.map" -Wl,-soname,"$soname" \
	-Wl,--gc-sections -Wl,-z,relro,-z,now ${LDFLAGS-} -lpthread -ldl -lm
# A program that knows only <cmwq/simple.h> may have the kernel's names for its own: in the archive these give way to it.
# Nothing in the library refers to them (queueing.rs).
weak=$(sed -n '/^global:/,/^local:/s/^[[:space:]]\([a-z_]*\);$/\1/p' "$here/libcmwq.map" | sed -n '/^cmwq_/!s/^/--weaken-symbol=/p')
# shellcheck disable=SC2086
"$objcopy" $weak "$archive" "$lib/libcmwq.a" 2>/dev/null || {
	echo "install.sh: no '$objcopy' that takes $archive: programs that link the archive must not have names of the kernel's" >&2
	cp "$archive" "$lib/libcmwq.a"
}
"$strip" --strip-debug "$lib/libcmwq.a"
chmod 644 "$lib/libcmwq.a"
"$strip" --strip-unneeded "$lib/libcmwq.so.$version"
ln -sf "libcmwq.so.$version" "$lib/$soname"
ln -sf "$soname" "$lib/libcmwq.so"
shown=$libdir
case $libdir in "$prefix"/*) shown="\${prefix}/${libdir#"$prefix"/}" ;; esac
sed -e "s|@PREFIX@|$prefix|" -e "s|@LIBDIR@|$shown|" -e "s|@VERSION@|$version|" \
	"$here/libcmwq.pc.in" >"$lib/pkgconfig/libcmwq.pc"
for file in LICENSE-MIT LICENSE-APACHE CHANGELOG.md README.md; do
	cp "$here/$file" "$doc/$file"
	readable "$doc/$file"
done

# Each name of a page that is not the page's own becomes a link to it.
for page in "$here"/man/*.[37]; do
	file=${page##*/}
	section=${file##*.}
	folder=$destdir$prefix/share/man/man$section
	mkdir -p "$folder"
	cp "$page" "$folder/$file"
	readable "$folder/$file"
	sed -n '/^\.SH NAME$/,/ \\-/{/^\.SH/d;s/ \\-.*//;s/,$//;p;}' "$page" | while read -r name; do
		[ "$name.$section" = "$file" ] || echo ".so man$section/$file" >"$folder/$name.$section"
	done
done

# Programs find a library in such a folder by the cache of the dynamic linker only.
tell_linker() {
	[ -z "$destdir" ] || return 0
	if [ "$(id -u)" = 0 ] && PATH=$PATH:/sbin:/usr/sbin command -v ldconfig >/dev/null 2>&1; then
		PATH=$PATH:/sbin:/usr/sbin ldconfig 2>/dev/null || true
	fi
	# What follows is right where the cache knows the folder, and only there.
	case $(PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null) in *"$libdir/$soname"*) return 0 ;; esac
	echo "install.sh: programs find the library with LD_LIBRARY_PATH=$libdir (or -Wl,-rpath,$libdir when they are linked)" >&2
}

[ -n "$with_command" ] || {
	tell_linker
	exit 0
}
share=$destdir$prefix/share
mkdir -p "$destdir$prefix/bin" "$share/bash-completion/completions" "$share/zsh/site-functions" \
	"$share/fish/vendor_completions.d"
rm -f "$destdir$prefix/bin/cmwq"
cp "$command" "$destdir$prefix/bin/cmwq"
"$strip" --strip-unneeded "$destdir$prefix/bin/cmwq"
chmod 755 "$destdir$prefix/bin/cmwq"
# It says itself what its pages say.
if "$command" --version >/dev/null 2>&1; then
	"$command" man "$share/man/man1"
	"$command" completions bash >"$share/bash-completion/completions/cmwq"
	"$command" completions zsh >"$share/zsh/site-functions/_cmwq"
	"$command" completions fish >"$share/fish/vendor_completions.d/cmwq.fish"
else
	echo "install.sh: $command does not run here: its pages and completions are left out" >&2
fi
tell_linker
