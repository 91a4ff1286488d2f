# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=bash disable=SC2034
# Read by prepare-headers: what is particular to Samba.

readonly PACKAGE=samba
readonly RECIPE=(headers-samba.sh samba-headers)
# The VFS interfaces that vfs_stub/compat.h knows.
readonly VFS_INTERFACES=' 47 50 '
readonly VFS_SUPPORTED='47 and 50 (samba 4.17 and 4.22)'

# Of packages that are installed: path of the file in one of them that ends in $1.
file_of() {
	local end=$1

	shift
	dpkg-query -L "$@" 2>/dev/null | sed -n "\\#$end\$#p" | tail -n 1
}

# In Debian 13 samba has its modules itself.
plugin_of() {
	file_of '/vfs/acl_xattr\.so' samba samba-vfs-modules
}

check_installed() {
	local package

	for package in samba samba-libs libtalloc-dev libtevent-dev; do
		[ -n "$(source_version "$package")" ] ||
			die "$package is not installed (packaging/deps/install --samba)"
	done
	[ "$(source_version samba)" = "$(source_version samba-libs)" ] ||
		die "samba $(source_version samba) and samba-libs $(source_version samba-libs) are not of one version"
	[ -n "$(plugin_of)" ] ||
		die "samba-vfs-modules is not installed (packaging/deps/install --samba)"
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
	[[ $VFS_INTERFACES == *" $number "* ]] ||
		die "samba $version has VFS interface $number; this release supports $VFS_SUPPORTED"
	base=$(file_of '/libsmbd-base-.*\.so\.0' samba-libs)
	symbols=$(grep -ao -m 1 'SAMBA_[0-9.]*[0-9]_[A-Z]' "$base" | tail -n 1)
	[ "${symbols%_?}" = "SAMBA_$(upstream_version "$version")" ] ||
		die "headers are of samba $version, but $base has the symbols ${symbols:-(unknown)}"
}

print_samba() {
	local entry=$1 version=$2 base plugin ndr

	base=$(file_of '/libsmbd-base-.*\.so\.0' samba-libs)
	plugin=$(plugin_of)
	ndr=$(file_of '/libndr\.so\.[0-9.]*\.[0-9]*' samba-libs)
	cat <<-EOF
	samba_version=$version
	samba_vfs_interface=$(macro "$entry/include/source3/include/vfs.h" SMB_VFS_INTERFACE_VERSION)
	samba_config_dir=$entry/config
	samba_include_dir=$entry/include
	samba_gen_dir=$entry/gen
	samba_lib_dir=${base%/*}
	samba_lib_suffix=${base##*libsmbd-base-}
	samba_ndr_lib=$ndr
	samba_plugin_dir=${plugin%/*}
	EOF
}
