# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=bash disable=SC2034
# Read by prepare-headers: what is particular to nfs-ganesha.

readonly PACKAGE=nfs-ganesha
readonly RECIPE=(headers-ganesha.sh ganesha-config-h)
LIB_DIR=/usr/lib/ganesha
readonly FSAL_API=(11 13)	# what fsal_stub/compat.h knows

# Where Debian installs plugins is what its server has compiled in.
plugin_dir() {
	dpkg-query -L nfs-ganesha-vfs 2>/dev/null | sed -n 's#/libfsalvfs\.so$##p'
}

check_installed() {
	[ -n "$(source_version nfs-ganesha)" ] || die "nfs-ganesha is not installed (packaging/deps/install)"
	[ -e "$LIB_DIR/libganesha_nfsd.so" ] || die "no $LIB_DIR/libganesha_nfsd.so"
	[ -n "$(plugin_dir)" ] || die "nfs-ganesha-vfs is not installed (packaging/deps/install)"
	[ -n "$(source_version libntirpc-dev)" ] || die "libntirpc-dev is not installed (packaging/deps/install)"
}

make_ganesha() {
	local work=$1 version=$2

	fetch_source "$work" nfs-ganesha "$version" '\.orig\.tar\.[a-z0-9]*'
	tar -C "$work/source" --strip-components=1 --no-same-owner -xf "$work"/nfs-ganesha_*.orig.tar.*
	mkdir "$work/entry/config"
	mv "$work/source/src/include" "$work/entry/include"
	/usr/bin/python3 "$HERE/ganesha-config-h" "$(upstream_version "$version")" \
		< "$work/entry/include/config-h.in.cmake" > "$work/entry/config/config.h"
	find "$work/entry/include" -type f ! -name '*.h' -delete
	find "$work/entry/include" -type d -empty -delete
}

check_ganesha() {
	local entry=$1 version=$2 header=$1/include/fsal_api.h major soname

	[ -r "$header" ] || die "$entry is damaged (use --force)"
	major=$(macro "$header" FSAL_MAJOR_VERSION)
	[[ " ${FSAL_API[*]} " = *" ${major:-?} "* ]] ||
		die "nfs-ganesha $version has FSAL API ${major:-?}; this release supports ${FSAL_API[*]} (nfs-ganesha 4 and 6)"
	soname=$(basename "$(realpath "$LIB_DIR/libganesha_nfsd.so")")
	[ "$soname" = "libganesha_nfsd.so.$(upstream_version "$version")" ] ||
		die "headers are of nfs-ganesha $version, but $LIB_DIR holds $soname"
}

print_ganesha() {
	local entry=$1 version=$2 header=$1/include/fsal_api.h

	cat <<-EOF
	ganesha_version=$version
	ganesha_fsal_api=$(macro "$header" FSAL_MAJOR_VERSION).$(macro "$header" FSAL_MINOR_VERSION)
	ganesha_config_dir=$entry/config
	ganesha_include_dir=$entry/include
	ganesha_ntirpc_dir=/usr/include/ntirpc
	ganesha_lib_dir=$LIB_DIR
	ganesha_plugin_dir=$(plugin_dir)
	EOF
}
