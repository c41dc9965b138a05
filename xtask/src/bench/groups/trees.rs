//! The groups, rows and requirements of `bench trees`.

use super::super::goal_quantity::GoalQuantity;
use super::super::rows::{BenchMethod, Group, Table, TableRow, Target, Topology};
use super::super::sources::BenchSource;
use super::goals::{against, beside, times};

pub const TABLE: Table = Table {
    key: "trees",
    heading: "hakobu and trees beside the usual tools",
    method: METHOD,
    groups: GROUPS,
};

const METHOD: &str = "\
Both ends are on this machine, in memory. A time is the wall clock of the whole command, from its start until both ends
have ended, less the median of three runs of the same command on one file. The methods of a group take turns within a
round, another one first in each, and a ratio is taken within each round; the figure of a row is the median of these
ratios, with the least and the most in brackets, and above 1 hakobu is the faster. hakobu is installed at both ends.
Where a row says that everything is kept, both look at access lists, extended attributes and hard links; otherwise
neither does, as `rsync -a` does not. Before the rounds hakobu's result is compared with the source, and in the first
round the others': content, modes and times, and by getfattr and find attributes and hard links where there are some.
A second run is first shown to repair a target that was damaged. What is to be removed, or to be brought up to date,
is put there before each run, off the clock, and memory that a run will take is warmed. On the network file system 2 000 files stand for 10 000, as the others take
their time there; `fpsync` has 32 jobs of 20 files, of 16, 32 and 64 jobs the fastest. Blocks that changed are spread evenly. Bytes on the wire are those of the
loopback interface, ssh and all. Memory is the kernel's `VmHWM` at the end of each process.
";

const AS_A: BenchMethod =
    BenchMethod::ours("hakobu", "hakobu sync --preserve no-acl,no-xattr,no-hardlinks $SOURCE/ $TARGET/");
const AS_A_PUSH: BenchMethod = BenchMethod::ours(
    "hakobu",
    "hakobu sync --preserve no-acl,no-xattr,no-hardlinks $SOURCE/ $HOST:$TARGET/",
);
const RSYNC: BenchMethod = BenchMethod::new("rsync -a", "rsync", "rsync -a $SOURCE/ $TARGET/");
const RSYNC_SSH: BenchMethod = BenchMethod::new(
    "rsync -a",
    "rsync",
    "rsync -a -e 'ssh -c aes128-gcm@openssh.com' $SOURCE/ $HOST:$TARGET/",
);
const RCLONE: BenchMethod = BenchMethod::new("rclone", "rclone", "rclone sync -q $SOURCE $TARGET");

const AGAIN: Group = Group {
    name: "a million files, nothing changed",
    source: BenchSource::MILLION,
    target: Target::Equal,
    travels: false,
    methods: &[
        AS_A,
        RSYNC,
        RCLONE,
        BenchMethod::ours("hakobu, all kept", "hakobu sync $SOURCE/ $TARGET/"),
        BenchMethod::new("rsync -aHAX", "rsync", "rsync -aHAX $SOURCE/ $TARGET/"),
    ],
    rows: &[
        TableRow {
            key: "again",
            title: "no change, 1 000 000 empty files, local to local",
            method: "hakobu",
            goals: &[times("rsync -a", 2.0, 2.7), times("rclone", 3.0, 6.0)],
        },
        TableRow {
            key: "again-all",
            title: "the same, everything kept",
            method: "hakobu, all kept",
            goals: &[times("rsync -aHAX", 2.0, 2.7), beside("rsync -a")],
        },
    ],
    ..Group::USUAL
};

const AGAIN_SSH: Group = Group {
    name: "a million files, nothing changed, over ssh",
    methods: &[AS_A_PUSH, RSYNC_SSH],
    rows: &[TableRow {
        key: "again-ssh",
        title: "no change, over ssh",
        method: "hakobu",
        goals: &[times("rsync -a", 2.0, 2.6)],
    }],
    ..AGAIN
};

const CHANGED: Group = Group {
    name: "one in a hundred changed, over ssh",
    target: Target::Outdated,
    methods: &[AS_A_PUSH, RSYNC_SSH],
    rows: &[TableRow {
        key: "changed",
        title: "1 % of 1 000 000 files changed, over ssh",
        method: "hakobu",
        goals: &[times("rsync -a", 2.0, 3.0)],
    }],
    ..AGAIN
};

const DRESSED: Group = Group {
    name: "attributes, access lists and hard links",
    source: BenchSource::DRESSED,
    target: Target::Fresh,
    methods: &[
        BenchMethod::ours("hakobu", "hakobu copy $SOURCE/ $HOST:$TARGET/"),
        BenchMethod::new(
            "rsync -aHAX",
            "rsync",
            "rsync -aHAX -e 'ssh -c aes128-gcm@openssh.com' $SOURCE/ $HOST:$TARGET/",
        ),
    ],
    rows: &[TableRow {
        key: "dressed",
        title: "100 000 files with xattrs, ACLs and hard links, first copy over ssh",
        method: "hakobu",
        goals: &[times("rsync -aHAX", 2.0, 3.0)],
    }],
    ..AGAIN
};

const REMOVAL: Group = Group {
    name: "removal",
    source: BenchSource::SMALL_FILES,
    target: Target::Surplus,
    methods: &[
        BenchMethod::ours("hakobu", "hakobu sync --delete --max-delete 100% $TARGET.empty/ $TARGET/"),
        BenchMethod::new("rsync -a --delete", "rsync", "rsync -a --delete $TARGET.empty/ $TARGET/"),
    ],
    rows: &[TableRow {
        key: "removal",
        title: "sync --delete removing 100 000 files, local",
        method: "hakobu",
        goals: &[times("rsync -a --delete", 2.0, 4.0)],
    }],
    ..AGAIN
};

const VERIFY: Group = Group {
    name: "verification",
    source: BenchSource::MIDDLE_FILES,
    target: Target::Same,
    methods: &[
        BenchMethod::ours(
            "hakobu",
            "hakobu verify --preserve no-acl,no-xattr,no-hardlinks $SOURCE/ $HOST:$TARGET/",
        ),
        BenchMethod::ours("hakobu, all compared", "hakobu verify $SOURCE/ $HOST:$TARGET/"),
        BenchMethod::new(
            "rsync -anc",
            "rsync",
            "rsync -anc -e 'ssh -c aes128-gcm@openssh.com' $SOURCE/ $HOST:$TARGET/",
        ),
    ],
    rows: &[
        TableRow {
            key: "verify",
            title: "verify with content over ssh, 2 GB in 20 000 files",
            method: "hakobu",
            goals: &[times("rsync -anc", 2.5, 4.0)],
        },
        TableRow {
            key: "verify-all",
            title: "the same, attributes and hard links compared as well",
            method: "hakobu, all compared",
            goals: &[beside("rsync -anc")],
        },
    ],
    ..AGAIN
};

const PAGES: Group = Group {
    name: "a large file of which a little changed",
    source: BenchSource::LARGE_IN_TREE,
    target: Target::Pages,
    methods: &[BenchMethod::ours("hakobu", "hakobu sync $SOURCE/ $HOST:$TARGET/"), RSYNC_SSH],
    rows: &[
        TableRow {
            key: "pages",
            title: "1 GiB file, 1 % of its blocks of 4 KiB changed, over ssh",
            method: "hakobu",
            goals: &[times("rsync -a", 3.0, 5.0)],
        },
        TableRow {
            key: "pages-bytes",
            title: "bytes on the wire for that: times fewer",
            method: "hakobu",
            goals: &[against(GoalQuantity::TimesFewerBytes, "rsync -a", 0.91, 1.0)],
        },
    ],
    ..AGAIN
};

const SHIFTED: Group = Group {
    name: "a large file with a byte more at its beginning",
    target: Target::Shifted,
    rows: &[
        TableRow {
            key: "shifted",
            title: "1 GiB file, shifted by one byte, over ssh",
            method: "hakobu",
            goals: &[times("rsync -a", 3.0, 5.0)],
        },
        TableRow {
            key: "shifted-bytes",
            title: "bytes on the wire for that: times fewer",
            method: "hakobu",
            goals: &[against(GoalQuantity::TimesFewerBytes, "rsync -a", 0.91, 1.0)],
        },
    ],
    ..PAGES
};

const NETWORK: Group = Group {
    name: "a network file system on both sides",
    topology: Topology::SlowFs,
    source: BenchSource::NETWORK_FILES,
    target: Target::Fresh,
    methods: &[
        BenchMethod::ours("hakobu", "hakobu copy $SOURCE/ $TARGET"),
        BenchMethod::new("rsync -a", "rsync", "rsync -a $SOURCE/ $TARGET/"),
        BenchMethod::new("cp -a", "cp", "cp -a $SOURCE $TARGET"),
        BenchMethod::new("fpsync", "fpsync", "fpsync -n 32 -f 20 $SOURCE/ $TARGET/"),
    ],
    rows: &[TableRow {
        key: "network",
        title: "2 000 × 50 KB, both sides on FUSE with 1 ms for each operation",
        method: "hakobu",
        goals: &[times("rsync -a", 10.0, 20.0), times("cp -a", 5.0, 10.0), times("fpsync", 2.0, 4.0)],
    }],
    ..AGAIN
};

/// All groups. Groups with the same source are adjacent.
pub const GROUPS: &[Group] = &[AGAIN, AGAIN_SSH, CHANGED, DRESSED, REMOVAL, VERIFY, PAGES, SHIFTED, NETWORK];
