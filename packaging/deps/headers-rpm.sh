# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=bash disable=SC2034
# Read by prepare-headers on EL and Fedora after headers-SERVER.sh: what is asked of rpm and
# dnf there instead of dpkg and apt.
#
# The headers are made of the source package of exactly the installed build, unpacked and
# patched by its own spec.  Ganesha's config.h is the one that its spec's configuration makes:
# the options that distributions choose change what a plugin sees.

LIB_DIR=$(rpm --eval '%{_libdir}')

# Of this machine's architecture, nothing if it is not installed.
source_version() {
	rpm -q --qf '%{evr}\n' "$1.$(uname -m)" 2> /dev/null | grep -v ' ' || true
}

plugin_dir() {
	rpm -ql nfs-ganesha-vfs 2> /dev/null | sed -n 's#/libfsalvfs\.so$##p'
}

# Which package has which of Samba's libraries differs; they have no .0 at their end.
file_of() {
	local name

	for name in samba samba-libs samba-common-libs samba-client-libs; do
		rpm -ql "$name" 2> /dev/null || true
	done | sed -n "\\#${2%'\.0'}\$#p" | tail -n 1
}

check_installed() {
	local package packages=(nfs-ganesha nfs-ganesha-vfs libntirpc-devel)

	[ "$PACKAGE" != samba ] || packages=(samba samba-libs libtalloc-devel libtevent-devel)
	for package in "${packages[@]}"; do
		[ -n "$(source_version "$package")" ] ||
			die "$package is not installed (dnf install $package)"
	done
	if [ "$PACKAGE" = samba ]; then
		[ "$(source_version samba)" = "$(source_version samba-libs)" ] ||
			die "samba and samba-libs are not of one version (dnf upgrade samba samba-libs)"
		perl -MParse::Yapp -e 1 2> /dev/null ||
			die "Parse::Yapp is not installed (dnf install 'perl(Parse::Yapp)')"
	fi
}

# unpack_source WORK PACKAGE VERSION HOW: fetches and checks the source package, and lets
# rpmbuild go as far as HOW (-rp: unpacked; -rc: configured, and compiled if its spec
# calls make itself).
unpack_source() {
	local work=$1 package=$2 version=$3 how=$4 log=$1/log source

	dnf -q download --source --destdir "$work" "$package-$version" > "$log" 2>&1 </dev/null || true
	source=$(compgen -G "$work/*.src.rpm" | head -n 1) || {
		tail -n 5 "$log" >&2
		die "cannot fetch the source of $package $version (dnf download --source), see above"
	}
	rpmkeys --define '_pkgverify_level all' --checksig "$source" > "$log" 2>&1 || {
		tail -n 5 "$log" >&2
		die "${source##*/} is not signed by a key that rpm knows (rpmkeys --import), see above"
	}
	rpmbuild "$how" --nodeps --define "_topdir $work/top" --define "cmake_build true" \
		--define "make_build true" "$source" \
		> "$log" 2>&1 </dev/null || {
		grep -i -A 2 error "$log" | head -n 12 >&2
		die "rpmbuild $how of ${source##*/} failed, see above (dnf builddep $package)"
	}
}

make_ganesha() {
	local work=$1 version=$2 api config

	unpack_source "$work" nfs-ganesha "$version" -rc
	api=$(find "$work/top/BUILD" -path '*/include/fsal_api.h' | head -n 1)
	config=$(find "$work/top/BUILD" -path '*/include/config.h' -exec grep -l GANESHA_VERSION {} + |
		head -n 1)
	[ -n "$api" ] && [ -n "$config" ] ||
		die "no fsal_api.h or config.h in the source of nfs-ganesha $version"
	mkdir "$work/entry/config"
	cp "$config" "$work/entry/config/config.h"
	cp -r "${api%/fsal_api.h}" "$work/entry/include"
	rm -f "$work/entry/include/config.h"
	find "$work/entry/include" -type f ! -name '*.h' -delete
	find "$work/entry/include" -type d -empty -delete
}

make_samba() {
	local work=$1 version=$2 header

	unpack_source "$work" samba "$version" -rp
	header=$(find "$work/top/BUILD" -path '*/source3/include/vfs.h' | head -n 1)
	[ -n "$header" ] || die "no vfs.h in the source of samba $version"
	"$HERE/samba-headers" "${header%/source3/include/vfs.h}" "$work/entry"
}
