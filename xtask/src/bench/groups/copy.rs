//! The groups, rows and requirements of `bench copy`.

use super::super::goal_quantity::GoalQuantity;
use super::super::rows::{BenchMethod, Goal, Group, Table, TableRow, Target, Topology};
use super::super::sources::BenchSource;
use super::goals::{alone, beside, times};

pub const TABLE: Table = Table {
    key: "copy",
    heading: "hakobu copy beside the tools people use today",
    method: METHOD,
    groups: GROUPS,
};

const METHOD: &str = "\
Both ends are on this machine. A time is the wall clock of the whole command, from its start until both ends have
ended, less the median of three runs of the same command on one byte (login and start; for `iperf3` `-n 1`). The methods
of a group take turns within a round, another one first in each, and a ratio is taken within each round; the figure of a row is the median of
these ratios, with the least and the most in brackets, and above 1 hakobu is the faster. Memory is warmed before each
run, targets are removed off the clock, and hakobu is installed at both ends. Before the rounds, hakobu's result is
compared with the source, or its digest where the target is `/dev/null`; after the first round, the others' content;
that all bytes crossed the network is checked in every round by the interface's counters. A second run is first
shown to repair a target that was damaged. Memory is the kernel's `VmHWM` at the end of each process.
";

const IPERF_SERVER: &str = "exec iperf3 -s -1 -p $PORT";
const PUSH: BenchMethod = BenchMethod::ours("hakobu", "hakobu copy $SOURCE $HOST:/dev/null");
const DD_SSH: BenchMethod = BenchMethod::new(
    "dd | ssh",
    "ssh",
    "dd if=$SOURCE bs=64k status=none | ssh -c aes256-gcm@openssh.com $HOST 'cat >/dev/null'",
);
const SCP: BenchMethod = BenchMethod::new("scp", "scp", "scp -q $SOURCE $HOST:/dev/null");
const IPERF_2: BenchMethod =
    BenchMethod::new("iperf3 -P 2", "iperf3", "iperf3 -c $ADDRESS -p $PORT -P 2 -n $BYTES")
        .remote(IPERF_SERVER);

const TREE_PUSH: BenchMethod = BenchMethod::ours("hakobu", "hakobu copy $SOURCE/ $HOST:$TARGET/");
const RSYNC_SSH: BenchMethod = BenchMethod::new(
    "rsync over ssh",
    "rsync",
    "rsync -a -e 'ssh -c aes128-gcm@openssh.com' $SOURCE/ $HOST:$TARGET/",
);
const TAR_SSH_TAR: BenchMethod = BenchMethod::new(
    "tar | ssh | tar",
    "tar",
    "tar -C $SOURCE -cf - . | ssh -c aes128-gcm@openssh.com $HOST \"mkdir $TARGET && tar -C $TARGET -xf -\"",
);
const TREE_LOCAL: BenchMethod = BenchMethod::ours("hakobu", "hakobu copy $SOURCE/ $TARGET/");
/// hakobu limited to the metadata that `rsync -a` preserves and compares.
const AS_A_LOCAL: BenchMethod =
    BenchMethod::ours("hakobu", "hakobu copy --preserve no-acl,no-xattr,no-hardlinks $SOURCE/ $TARGET/");
const AS_A_PUSH: BenchMethod = BenchMethod::ours(
    "hakobu",
    "hakobu copy --preserve no-acl,no-xattr,no-hardlinks $SOURCE/ $HOST:$TARGET/",
);
const ALL_LOCAL: BenchMethod = BenchMethod::ours("hakobu, all kept", "hakobu copy $SOURCE/ $TARGET/");
const RSYNC_ALL: BenchMethod = BenchMethod::new("rsync -aHAX", "rsync", "rsync -aHAX $SOURCE/ $TARGET/");
const RSYNC: BenchMethod = BenchMethod::new("rsync -a", "rsync", "rsync -a $SOURCE/ $TARGET/");
const RCLONE: BenchMethod = BenchMethod::new("rclone", "rclone", "rclone copy -q $SOURCE $TARGET").extra();

const PUSH_GOALS: &[Goal] =
    &[times("dd | ssh", 2.2, 3.0), times("scp", 4.0, 6.0), times("iperf3 -P 2", 0.58, 0.8)];
const TREE_PUSH_GOALS: &[Goal] = &[times("rsync over ssh", 2.0, 3.0), times("tar | ssh | tar", 1.4, 2.2)];

const LARGE_FILE: Group = Group {
    name: "large file",
    source: BenchSource::LARGE,
    target: Target::Discard,
    // Methods that are compared with each other are adjacent; scp and dd take longest.
    methods: &[
        SCP,
        DD_SSH,
        PUSH,
        IPERF_2,
        BenchMethod::ours("hakobu pull", "hakobu copy $HOST:$SOURCE /dev/null"),
        BenchMethod::ours("hakobu plain", "hakobu copy --cipher none $SOURCE $HOST:/dev/null"),
        BenchMethod::new("mbuffer", "mbuffer", "mbuffer -q -s 128k -m 128M -i $SOURCE -O $ADDRESS:$PORT")
            .remote("exec mbuffer -q -s 128k -m 128M -I $PORT -o /dev/null"),
        BenchMethod::new("nc", "nc", "nc -N $ADDRESS $PORT <$SOURCE").remote("exec nc -l $PORT >/dev/null"),
        BenchMethod::new("scp aes128-gcm", "scp", "scp -q -c aes128-gcm@openssh.com $SOURCE $HOST:/dev/null")
            .extra(),
        BenchMethod::ours("hakobu, 1 lane", "hakobu copy --lanes 1 $SOURCE $HOST:/dev/null").extra(),
        BenchMethod::ours("hakobu, 4 lanes", "hakobu copy --lanes 4 $SOURCE $HOST:/dev/null").extra(),
        BenchMethod::ours("hakobu aes-256-gcm", "hakobu copy --cipher aes-256-gcm $SOURCE $HOST:/dev/null")
            .extra(),
        BenchMethod::ours(
            "hakobu chacha20",
            "hakobu copy --cipher chacha20-poly1305 $SOURCE $HOST:/dev/null",
        )
        .extra(),
    ],
    rows: &[
        TableRow {
            key: "push",
            title: "8 GiB random file, tmpfs → ssh host's /dev/null, encrypted",
            method: "hakobu",
            goals: PUSH_GOALS,
        },
        TableRow {
            key: "plain",
            title: "the same with --cipher none",
            method: "hakobu plain",
            goals: &[times("iperf3 -P 2", 0.75, 1.0), times("mbuffer", 1.05, 1.4), beside("nc")],
        },
        TableRow {
            key: "pull",
            title: "pull of the same, encrypted",
            method: "hakobu pull",
            goals: &[times("hakobu", 0.95, 1.0)],
        },
        TableRow {
            key: "variants",
            title: "8 GiB, other settings and tools",
            method: "hakobu",
            goals: &[
                beside("scp aes128-gcm"),
                beside("hakobu, 1 lane"),
                beside("hakobu, 4 lanes"),
                beside("hakobu aes-256-gcm"),
                beside("hakobu chacha20"),
            ],
        },
    ],
    ..Group::USUAL
};

const TO_FILE: Group = Group {
    name: "file to file",
    source: BenchSource::MIDDLE,
    methods: &[
        BenchMethod::ours("hakobu", "hakobu copy $SOURCE $HOST:$TARGET"),
        BenchMethod::new(
            "dd | ssh | dd",
            "ssh",
            "dd if=$SOURCE bs=64k status=none | ssh -c aes256-gcm@openssh.com $HOST \"dd of=$TARGET bs=64k status=none\"",
        ),
        BenchMethod::new("qcp", "qcp", "qcp -q $SOURCE $HOST:$TARGET").extra(),
    ],
    rows: &[TableRow {
        key: "file",
        title: "2 GiB to a file on the host's warm tmpfs, encrypted",
        method: "hakobu",
        goals: &[times("dd | ssh | dd", 1.8, 2.5), beside("qcp")],
    }],
    ..Group::USUAL
};

const TREE_TO_HOST: Group = Group {
    name: "tree to the host",
    source: BenchSource::TREE,
    methods: &[TREE_PUSH, RSYNC_SSH, TAR_SSH_TAR],
    rows: &[TableRow {
        key: "tree-ssh",
        title: "100 000 × 10 KiB in 1 000 directories, tmpfs → host's tmpfs, encrypted",
        method: "hakobu",
        goals: TREE_PUSH_GOALS,
    }],
    ..Group::USUAL
};

const TREE_HERE: Group = Group {
    name: "tree, local",
    source: BenchSource::TREE,
    travels: false,
    methods: &[
        TREE_LOCAL,
        BenchMethod::new(
            "tar | tar",
            "tar",
            "mkdir $TARGET && tar -C $SOURCE -cf - . | tar -C $TARGET -xf -",
        ),
        BenchMethod::new("cp -a", "cp", "cp -a $SOURCE $TARGET"),
        RSYNC,
        RCLONE,
        BenchMethod::new("rcp", "rcp", "rcp --preserve $SOURCE $TARGET").extra(),
    ],
    rows: &[TableRow {
        key: "tree-local",
        title: "the same, local to local",
        method: "hakobu",
        goals: &[
            times("tar | tar", 1.2, 1.6),
            times("cp -a", 1.4, 2.0),
            times("rsync -a", 2.2, 3.0),
            beside("rclone"),
            beside("rcp"),
        ],
    }],
    ..Group::USUAL
};

const AGAIN_HERE: Group = Group {
    name: "second run, local",
    source: BenchSource::TREE,
    target: Target::Equal,
    travels: false,
    methods: &[AS_A_LOCAL, RSYNC, ALL_LOCAL, RSYNC_ALL, RCLONE],
    rows: &[
        TableRow {
            key: "again-local",
            title: "second run, nothing changed, local, without access lists and attributes as rsync -a",
            method: "hakobu",
            goals: &[times("rsync -a", 2.0, 2.7), beside("rclone")],
        },
        TableRow {
            key: "again-all",
            title: "the same with all that is kept otherwise",
            method: "hakobu, all kept",
            goals: &[times("rsync -aHAX", 2.0, 2.7), beside("rsync -a")],
        },
    ],
    ..Group::USUAL
};

const AGAIN_HOST: Group = Group {
    name: "second run, to the host",
    source: BenchSource::TREE,
    target: Target::Equal,
    travels: false,
    methods: &[AS_A_PUSH, RSYNC_SSH],
    rows: &[TableRow {
        key: "again-ssh",
        title: "second run, nothing changed, over ssh",
        method: "hakobu",
        goals: &[times("rsync over ssh", 2.0, 3.0)],
    }],
    ..Group::USUAL
};

const LINK_FILE: Group = Group {
    name: "long link, one file",
    topology: Topology::LongLink,
    source: BenchSource::LINK_FILE,
    methods: &[
        BenchMethod::ours("hakobu", "hakobu copy $SOURCE $HOST:$TARGET"),
        BenchMethod::new("iperf3 -P 8", "iperf3", "iperf3 -c $ADDRESS -p $PORT -P 8 -n $BYTES")
            .remote(IPERF_SERVER)
            .discarding(),
        BenchMethod::new("scp", "scp", "scp -q $SOURCE $HOST:$TARGET").extra(),
    ],
    rows: &[TableRow {
        key: "link-file",
        title: "RTT 100 ms, 1 Gbit/s: one 500 MB file",
        method: "hakobu",
        goals: &[times("iperf3 -P 8", 0.85, 0.95), beside("scp")],
    }],
    ..Group::USUAL
};

const LINK_TREE: Group = Group {
    name: "long link, small files",
    topology: Topology::LongLink,
    source: BenchSource::LINK_TREE,
    methods: &[TREE_PUSH, RSYNC_SSH.extra(), TAR_SSH_TAR.extra()],
    rows: &[TableRow {
        key: "link-tree",
        title: "RTT 100 ms: 10 000 × 4 KiB, after login",
        method: "hakobu",
        goals: &[alone(GoalQuantity::Seconds, 2.0, 1.0), beside("rsync over ssh"), beside("tar | ssh | tar")],
    }],
    ..Group::USUAL
};

const fn file_over(topology: Topology, name: &'static str, rows: &'static [TableRow]) -> Group {
    Group { name, topology, methods: &[DD_SSH, PUSH, IPERF_2], rows, extra: true, ..LARGE_FILE }
}

const fn tree_over(topology: Topology, name: &'static str, rows: &'static [TableRow]) -> Group {
    Group { name, topology, rows, extra: true, ..TREE_TO_HOST }
}

/// The push and the tree again over other networks, for information only.
macro_rules! elsewhere {
    ($key:literal, $title:literal, $goals:expr) => {
        &[TableRow { key: $key, title: $title, method: "hakobu", goals: $goals }]
    };
}

const FILE_BESIDE: &[Goal] = &[beside("dd | ssh"), beside("iperf3 -P 2")];
const TREE_BESIDE: &[Goal] = &[beside("rsync over ssh"), beside("tar | ssh | tar")];

/// All groups. Groups with the same source are adjacent, since sources are created on first use and removed after their
/// last group.
pub const GROUPS: &[Group] = &[
    LARGE_FILE,
    file_over(
        Topology::Veth,
        "large file, veth",
        elsewhere!("veth-push", "8 GiB → /dev/null over veth, MTU 1500", FILE_BESIDE),
    ),
    file_over(
        Topology::VethCubic,
        "large file, cubic",
        elsewhere!("cubic-push", "8 GiB → /dev/null over veth, MTU 1500, cubic", FILE_BESIDE),
    ),
    TO_FILE,
    TREE_TO_HOST,
    TREE_HERE,
    AGAIN_HERE,
    AGAIN_HOST,
    tree_over(
        Topology::Veth,
        "tree, veth",
        elsewhere!("veth-tree", "100 000 × 10 KiB over veth, MTU 1500", TREE_BESIDE),
    ),
    tree_over(
        Topology::VethCubic,
        "tree, cubic",
        elsewhere!("cubic-tree", "100 000 × 10 KiB over veth, MTU 1500, cubic", TREE_BESIDE),
    ),
    LINK_FILE,
    LINK_TREE,
];
