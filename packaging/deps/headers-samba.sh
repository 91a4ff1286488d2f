# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=bash disable=SC2034
# Read by prepare-headers: what is particular to Samba.

readonly PACKAGE=samba
readonly RECIPE=(headers-samba.sh samba-headers)
readonly VFS_INTERFACE=47

# Of the package that is installed: path of the file in it that ends in $2.
file_of() {
	dpkg-query -L "$1" 2>/dev/null | sed -n "\\#$2\$#p" | tail -n 1
}

check_installed() {
	local package

	for package in samba samba-libs samba-vfs-modules libtalloc-dev libtevent-dev; do
		[ -n "$(source_version "$package")" ] ||
			die "$package is not installed (packaging/deps/install --samba)"
	done
	[ "$(source_version samba)" = "$(source_version samba-libs)" ] ||
		die "samba $(source_version samba) and samba-libs $(source_version samba-libs) are not of one version"
	perl -MParse::Yapp -e 1 2>/dev/null ||
		die "libparse-yapp-perl is not installed (packaging/deps/install --samba)"
}

make_samba() {
	local work=$1 version=$2

	fetch_source "$work" samba "$version" ''
	rmdir "$work/source"
	(cd "$work" && dpkg-source --no-check -x samba_*.dsc source) > "$work/log" 2>&1 ||
		{ tail -n 5 "$work/log" >&2; die "cannot unpack the source of samba $version"; }
	"$HERE/samba-headers" "$work/source" "$work/entry"
}

check_samba() {
	local entry=$1 version=$2 number base symbols

	number=$(macro "$entry/include/source3/include/vfs.h" SMB_VFS_INTERFACE_VERSION) || true
	[ -n "$number" ] && [ -r "$entry/gen/librpc/gen_ndr/ndr_xattr.h" ] ||
		die "$entry is damaged (use --force)"
	[ "$number" = "$VFS_INTERFACE" ] ||
		die "samba $version has VFS interface $number; this release supports $VFS_INTERFACE (samba 4.17)"
	base=$(file_of samba-libs '/libsmbd-base-.*\.so\.0')
	symbols=$(grep -ao -m 1 'SAMBA_[0-9.]*[0-9]_[A-Z]' "$base" | tail -n 1)
	[ "${symbols%_?}" = "SAMBA_$(upstream_version "$version")" ] ||
		die "headers are of samba $version, but $base has the symbols ${symbols:-(unknown)}"
}

print_samba() {
	local entry=$1 version=$2 base plugin

	base=$(file_of samba-libs '/libsmbd-base-.*\.so\.0')
	plugin=$(file_of samba-vfs-modules '/vfs/acl_xattr\.so')
	cat <<-EOF
	samba_version=$version
	samba_vfs_interface=$VFS_INTERFACE
	samba_config_dir=$entry/config
	samba_include_dir=$entry/include
	samba_gen_dir=$entry/gen
	samba_lib_dir=${base%/*}
	samba_lib_suffix=${base##*libsmbd-base-}
	samba_plugin_dir=${plugin%/*}
	EOF
}
