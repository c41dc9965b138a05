//! Disks that are in use by volumes made from them.

use std::path::PathBuf;
use std::time::Duration;

use hakobu_testkit::partition_table::mbr;
use hakobu_testkit::sshd::no_root;
use hakobu_testkit::vm::VmDisk;
use serde_json::Value;
use tempfile::TempDir;

use crate::*;

const LIMIT: Duration = Duration::from_secs(300);
const SOURCE_BYTES: u64 = 3 * MIB;
const DISK_BYTES: u64 = 40 * MIB;

/// A disk in use, the words of its refusal, and how `hakobu disks` describes its user.
struct Held {
    disk: &'static str,
    serial: &'static str,
    words: [&'static str; 2],
    used: [&'static str; 4],
}

const HELD: [Held; 5] = [
    Held {
        disk: "/dev/vdb",
        serial: "RAIDONE",
        words: ["/dev/vdb (", "belongs to the RAID md0: stop that first (mdadm --stop /dev/md0)"],
        used: ["vdb", "md", "md0", ""],
    },
    Held {
        disk: "/dev/vdc",
        serial: "RAIDTWO",
        words: ["/dev/vdc1, a partition of /dev/vdc,", "belongs to the RAID md0: stop that first"],
        used: ["vdc1", "md", "md0", ""],
    },
    Held {
        disk: "/dev/vdd",
        serial: "VOLUME",
        words: ["/dev/vdd (", "holds the LVM volume pool-data: deactivate that first (vgchange -an"],
        used: ["vdd", "lvm", "dm-0", "pool-data"],
    },
    Held {
        disk: "/dev/vde",
        serial: "SECRET",
        words: [
            "/dev/vde (",
            "is open as the encrypted volume safe: close that first (cryptsetup close safe)",
        ],
        used: ["vde", "crypt", "dm-1", "safe"],
    },
    Held {
        disk: "/dev/vdf",
        serial: "BYHAND",
        words: [
            "/dev/vdf (",
            "is part of the device-mapper volume plain: remove that first (dmsetup remove plain)",
        ],
        used: ["vdf", "device_mapper", "dm-2", "plain"],
    },
];

/// Makes a volume of each kind.
const MAKE: &str = "
step raid mdadm --create /dev/md0 --run --assume-clean --bitmap=none --metadata=1.2 --level=1 --raid-devices=2 \
/dev/vdb /dev/vdc1
step physical lvm pvcreate --yes /dev/vdd
step group lvm vgcreate pool /dev/vdd
step logical lvm lvcreate --yes --zero n --wipesignatures n -L 8m -n data pool
echo open sesame >/tmp/key
step format cryptsetup luksFormat --batch-mode --type luks1 --pbkdf-force-iterations 1000 --key-file /tmp/key /dev/vde
step open cryptsetup open --key-file /tmp/key /dev/vde safe
echo '0 16384 linear /dev/vdf 2048' >/tmp/table
step plain dmsetup create plain /tmp/table
sleep 1
step disks hakobu disks --json
";

/// The commands that the refusals recommend.
const END: &str = "
step end-raid mdadm --stop /dev/md0
step end-lvm lvm vgchange -an pool
step end-crypt cryptsetup close safe
step end-plain dmsetup remove plain
";

#[test]
#[ignore = "long"]
fn long_disks_that_are_held_are_refused_and_taken_once_they_are_let_go() {
    // Root installs the packages that this test needs.
    if no_root() {
        return;
    }
    let place = TempDir::with_prefix("hakobu-test.").unwrap();
    let source = random(place.path(), "source", SOURCE_BYTES);
    let files: Vec<PathBuf> =
        HELD.iter().map(|held| full_of(place.path(), held.serial, 0xaa, DISK_BYTES)).collect();
    let table = mbr(7, &[(0xfd, 2048, 61440)]);
    File::options().write(true).open(&files[1]).unwrap().write_all_at(&table, 0).unwrap();
    let mut machine = machine(&["md-mod", "raid1", "dm-mod", "dm-crypt", "xts", "ecb", "algif_skcipher"]);
    for tool in ["mdadm", "lvm", "cryptsetup", "dmsetup"] {
        machine.program(format!("/sbin/{tool}"), &format!("/sbin/{tool}")).unwrap();
    }
    machine
        .program("/usr/lib/x86_64-linux-gnu/libgcc_s.so.1", "/lib/x86_64-linux-gnu/libgcc_s.so.1")
        .unwrap();

    let mut script = MAKE.to_owned();
    let digest =
        |name: &str| HELD.map(|held| format!("step {name}-{} sha256sum {}\n", held.serial, held.disk));
    script.extend(digest("before"));
    for Held { disk, serial, .. } in HELD {
        script.push_str(&format!(
            "step try-{serial} hakobu copy -n --confirm serial.{serial} /dev/vda {disk}\n"
        ));
        script
            .push_str(&format!("step copy-{serial} hakobu copy --confirm serial.{serial} /dev/vda {disk}\n"));
    }
    script.extend(digest("after"));
    script.push_str(END);
    for Held { disk, serial, .. } in HELD {
        script
            .push_str(&format!("step free-{serial} hakobu copy --confirm serial.{serial} /dev/vda {disk}\n"));
    }
    let mut disks = vec![VmDisk::new(&source, "SOURCE")];
    disks.extend(HELD.iter().zip(&files).map(|(held, file)| VmDisk::new(file, held.serial)));
    let output = machine.start(&disks, &script, LIMIT).unwrap().wait().unwrap();

    for name in ["raid", "logical", "open", "plain", "end-raid", "end-lvm", "end-crypt", "end-plain"] {
        assert_eq!(step(&output, name).code, 0, "{output}");
    }
    let listed: Value = serde_json::from_str(&step(&output, "disks").output).unwrap();
    let source = std::fs::read(&source).unwrap();
    for (held, file) in HELD.iter().zip(&files) {
        let serial = held.serial;
        for way in ["try", "copy"] {
            let refused = step(&output, &format!("{way}-{serial}"));
            assert_eq!(refused.code, 6, "{refused:?}");
            assert!(held.words.iter().all(|words| refused.output.contains(words)), "{}", refused.output);
            // Reasons that would hide each other are listed separately.
            assert_eq!(refused.output.matches("first (").count(), 1, "{}", refused.output);
        }
        let [before, after] = ["before", "after"].map(|when| step(&output, &format!("{when}-{serial}")));
        assert_eq!((before.code, &before.output), (0, &after.output), "{serial} was written to");
        assert_listed(&listed, held);
        let free = step(&output, &format!("free-{serial}"));
        assert_eq!(free.code, 0, "{}", free.output);
        assert!(std::fs::read(file).unwrap().starts_with(&source), "{serial} is another than the source");
    }
}

#[track_caller]
fn assert_listed(listed: &Value, held: &Held) {
    let disks = listed["disks"].as_array().unwrap();
    let disk = disks.iter().find(|disk| disk["id"] == format!("serial.{}", held.serial)).unwrap();
    let uses = disk["uses"].as_array().unwrap();
    let text = |used: &Value, field: &str| used[field].as_str().unwrap_or_default().to_owned();
    let uses: Vec<_> =
        uses.iter().map(|used| ["device", "use", "volume", "label"].map(|field| text(used, field))).collect();
    assert_eq!(uses, [held.used.map(str::to_owned)]);
}
