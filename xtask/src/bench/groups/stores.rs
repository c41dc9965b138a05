//! The groups, rows and requirements of `bench stores`: object stores.

use super::super::goal_quantity::GoalQuantity;
use super::super::peers::LOAD;
use super::super::rows::{BenchMethod, Group, StoreKind, StoreSides, Table, TableRow, Target, Topology};
use super::super::sources::{BenchSource, GIB, MIB};
use super::goals::{against, alone, beside, times};

pub const TABLE: Table = Table {
    key: "stores",
    heading: "hakobu and object stores beside s5cmd and rclone",
    method: METHOD,
    groups: GROUPS,
};

const METHOD: &str = "\
versitygw keeps the objects as files in memory; it and its clients share this machine, in a network namespace with a
loopback interface of its own. So a client also has what the server leaves of the processors, and the generator shows
what is left at most: `xtask bench load` sends the requests that the work needs over 16 connections with a thread each, parts
and ranges of 8 MiB, and does nothing else: it reads and writes no files, checks no content and keeps no attributes.
A time is the wall clock of the whole command, less the median of three runs of the same command on one byte. The methods
of a group take turns within a round, another one first in each, and a ratio is taken within each round; the figure of a
row is the median of these ratios, with the least and the most in brackets. Processor time is that of the client, start
included. rclone has the number that was fastest in a round before, on an eighth of the data. Objects that are downloaded
or found unchanged were uploaded by hakobu, those of the million are empty files put into the server's directory. Before
the rounds hakobu's result is compared with the source, and in the first round the others': content, and modes and times
of what hakobu downloads. Where nothing has changed, each is first shown to repair an object that was damaged, and
hakobu's report must count no request for a single object. A run that is killed gets SIGKILL when half of the source has
crossed the network; bytes sent again are all that crossed it in both runs, headers and acknowledgements included, less the
size of the source. Memory is the kernel's `VmHWM` at the end of each process.
";

const GENERATOR: &str = "bare generator";
const COUNTS: &[u16] = &[4, 16, 64];

const PUT: BenchMethod = BenchMethod::ours("hakobu", "hakobu copy $SOURCE $TARGET");
const TREE: BenchMethod = BenchMethod::ours("hakobu", "hakobu copy $SOURCE/ $TARGET/");
const S5CMD: BenchMethod =
    BenchMethod::new("s5cmd", "s5cmd", "s5cmd --endpoint-url http://$STORE cp $SOURCE $TARGET");

const LARGE_UP: Group = Group {
    name: "one large object, up",
    topology: Topology::Store(StoreKind::Versitygw),
    source: BenchSource::File { bytes: 4 * GIB },
    store: StoreSides::Target,
    methods: &[
        PUT,
        S5CMD,
        BenchMethod::new(
            "rclone",
            "rclone-1.75",
            "rclone-1.75 copyto --s3-upload-concurrency {n} $SOURCE store:${TARGET#s3://}",
        )
        .counting(COUNTS),
        BenchMethod::new(
            GENERATOR,
            LOAD,
            "xtask bench load upload --server $STORE --bytes $BYTES --at ${TARGET#s3://}",
        )
        .discarding(),
    ],
    rows: &[
        TableRow {
            key: "large-up",
            title: "4 GiB, tmpfs → S3, verified",
            method: "hakobu",
            goals: &[times("s5cmd", 1.2, 1.4), times("rclone", 1.3, 1.5), beside(GENERATOR)],
        },
        TableRow {
            key: "large-up-cpu",
            title: "processor time for that: times as much",
            method: "hakobu",
            goals: &[
                against(GoalQuantity::TimesCpu, "s5cmd", 0.6, 0.6),
                against(GoalQuantity::TimesCpu, "rclone", 0.6, 0.6),
            ],
        },
    ],
    ..Group::USUAL
};

const LARGE_DOWN: Group = Group {
    name: "one large object, down",
    store: StoreSides::Source,
    methods: &[
        PUT,
        S5CMD,
        BenchMethod::new(
            "rclone",
            "rclone-1.75",
            "rclone-1.75 copyto --multi-thread-streams {n} store:${SOURCE#s3://} $TARGET",
        )
        .counting(COUNTS),
        BenchMethod::new(
            GENERATOR,
            LOAD,
            "xtask bench load ranges --server $STORE --bytes $BYTES --at ${SOURCE#s3://}",
        )
        .discarding(),
    ],
    rows: &[TableRow {
        key: "large-down",
        title: "4 GiB, S3 → tmpfs, verified",
        method: "hakobu",
        goals: &[times("s5cmd", 1.2, 1.4), times("rclone", 1.5, 2.0), beside(GENERATOR)],
    }],
    ..LARGE_UP
};

const KILLED: Group = Group {
    name: "one large object, up, killed",
    methods: &[BenchMethod::ours("hakobu, killed and again", PUT.local).killed()],
    rows: &[TableRow {
        key: "killed",
        title: "4 GiB, killed half way, then the same command: bytes sent again",
        method: "hakobu, killed and again",
        goals: &[alone(GoalQuantity::BytesRepeated, (64 * MIB) as f64, (32 * MIB) as f64)],
    }],
    ..LARGE_UP
};

const SMALL_UP: Group = Group {
    name: "small objects, up",
    source: BenchSource::Tree { files: 20_000, directories: 200, file_bytes: 10 << 10 },
    methods: &[
        TREE,
        BenchMethod::new(
            "s5cmd",
            "s5cmd",
            "s5cmd --endpoint-url http://$STORE cp $SOURCE/ $TARGET/ >/dev/null",
        ),
        BenchMethod::new(
            "rclone",
            "rclone-1.75",
            "rclone-1.75 copy --transfers {n} $SOURCE store:${TARGET#s3://}",
        )
        .counting(COUNTS),
        BenchMethod::new(
            GENERATOR,
            LOAD,
            "xtask bench load put --server $STORE --tree $FILES --at ${TARGET#s3://}",
        )
        .discarding(),
    ],
    rows: &[TableRow {
        key: "small-up",
        title: "20 000 × 10 KiB, up",
        method: "hakobu",
        goals: &[times("s5cmd", 1.2, 1.4), times("rclone", 2.0, 3.0), beside(GENERATOR)],
    }],
    ..LARGE_UP
};

const SMALL_DOWN: Group = Group {
    name: "small objects, down",
    store: StoreSides::Source,
    methods: &[
        TREE,
        BenchMethod::new(
            "s5cmd",
            "s5cmd",
            "s5cmd --endpoint-url http://$STORE cp \"$SOURCE/*\" $TARGET/ >/dev/null",
        ),
        BenchMethod::new(
            "rclone",
            "rclone-1.75",
            "rclone-1.75 copy --transfers {n} store:${SOURCE#s3://} $TARGET",
        )
        .counting(COUNTS),
        BenchMethod::new(
            GENERATOR,
            LOAD,
            "xtask bench load get --server $STORE --tree $FILES --at ${SOURCE#s3://}",
        )
        .discarding(),
    ],
    rows: &[TableRow {
        key: "small-down",
        title: "20 000 × 10 KiB, down",
        method: "hakobu",
        goals: &[times("s5cmd", 1.2, 1.4), times("rclone", 2.0, 3.0), beside(GENERATOR)],
    }],
    ..SMALL_UP
};

const UNCHANGED: Group = Group {
    name: "small objects, nothing changed",
    source: BenchSource::SMALL_FILES,
    target: Target::Equal,
    travels: false,
    methods: &[
        BenchMethod::ours("hakobu", "hakobu sync $SOURCE/ $TARGET/"),
        BenchMethod::new(
            "s5cmd sync",
            "s5cmd",
            "s5cmd --endpoint-url http://$STORE sync $SOURCE/ $TARGET/ >/dev/null",
        ),
        BenchMethod::new("rclone sync", "rclone-1.75", "rclone-1.75 sync $SOURCE store:${TARGET#s3://}"),
    ],
    rows: &[
        TableRow {
            key: "unchanged",
            title: "no change, 100 000 objects against a local tree",
            method: "hakobu",
            goals: &[times("s5cmd sync", 1.5, 3.0), times("rclone sync", 3.0, 6.0)],
        },
        TableRow {
            key: "unchanged-lists",
            title: "requests for that, as a multiple of what the listing needs",
            method: "hakobu",
            goals: &[alone(GoalQuantity::TimesLists, 1.05, 1.0)],
        },
    ],
    ..SMALL_UP
};

const BETWEEN: Group = Group {
    name: "from the store to itself",
    source: BenchSource::Tree { files: 10_000, directories: 100, file_bytes: 10 << 10 },
    store: StoreSides::Both,
    travels: false,
    methods: &[
        TREE,
        BenchMethod::new(
            "rclone",
            "rclone-1.75",
            "rclone-1.75 copy store:${SOURCE#s3://} store:${TARGET#s3://}",
        ),
    ],
    rows: &[
        TableRow {
            key: "between",
            title: "S3 → S3 on one server, 10 000 objects",
            method: "hakobu",
            goals: &[times("rclone", 3.0, 4.0)],
        },
        TableRow {
            key: "between-bytes",
            title: "bytes through the client for that, for each byte there is",
            method: "hakobu",
            goals: &[alone(GoalQuantity::BytesMoved, 0.5, 0.3)],
        },
    ],
    ..SMALL_UP
};

const MILLION: Group = Group {
    name: "a million keys",
    source: BenchSource::Tree { files: 1_000_000, directories: 1000, file_bytes: 0 },
    store: StoreSides::Source,
    travels: false,
    methods: &[
        BenchMethod::ours("hakobu, first object", TREE.local).until_first_file(),
        BenchMethod::ours("hakobu, listing", "hakobu sync --dry-run $SOURCE/ $TARGET/").discarding(),
    ],
    rows: &[
        TableRow {
            key: "million-first",
            title: "1 000 000 keys under one prefix: first object copied",
            method: "hakobu, first object",
            goals: &[alone(GoalQuantity::Seconds, 2.0, 1.0)],
        },
        TableRow {
            key: "million-memory",
            title: "peak memory of listing them",
            method: "hakobu, listing",
            goals: &[alone(GoalQuantity::Bytes, (128 * MIB) as f64, (96 * MIB) as f64)],
        },
    ],
    ..SMALL_UP
};

/// The rate of the link in bytes per second.
const LINK_BYTES_PER_SECOND: f64 = 125e6;

/// Returns the seconds in which this share of the link's rate carries so many bytes.
const fn on_link(bytes: u64, share: f64) -> f64 {
    bytes as f64 / LINK_BYTES_PER_SECOND / share
}

const LINK_LARGE: Group = Group {
    name: "one large object over a link, up",
    topology: Topology::StoreLink(StoreKind::Versitygw),
    source: BenchSource::File { bytes: GIB },
    methods: &[
        PUT,
        BenchMethod::new("rclone", "rclone-1.75", "rclone-1.75 copyto $SOURCE store:${TARGET#s3://}"),
        BenchMethod::new(
            "rclone at its best",
            "rclone-1.75",
            "rclone-1.75 copyto --s3-upload-concurrency {n} $SOURCE store:${TARGET#s3://}",
        )
        .counting(COUNTS),
    ],
    rows: &[
        TableRow {
            key: "link-large",
            title: "1 GiB over 40 ms, 1 Gbit/s",
            method: "hakobu",
            goals: &[times("rclone", 3.0, 3.0), times("rclone at its best", 1.1, 1.1)],
        },
        TableRow {
            key: "link-large-rate",
            title: "seconds for that: the link carries it in 8.59",
            method: "hakobu",
            goals: &[alone(GoalQuantity::Seconds, on_link(GIB, 0.9), on_link(GIB, 0.95))],
        },
    ],
    ..LARGE_UP
};

const LINK_SMALL: Group = Group {
    name: "small objects over a link, up",
    source: BenchSource::Tree { files: 5_000, directories: 50, file_bytes: 10 << 10 },
    methods: &[
        TREE,
        BenchMethod::new("rclone", "rclone-1.75", "rclone-1.75 copy $SOURCE store:${TARGET#s3://}"),
        BenchMethod::new(
            "rclone at its best",
            "rclone-1.75",
            "rclone-1.75 copy --transfers {n} $SOURCE store:${TARGET#s3://}",
        )
        .counting(&[64, 256, 512]),
    ],
    rows: &[
        TableRow {
            key: "link-small",
            title: "5 000 × 10 KiB over 40 ms, 1 Gbit/s",
            method: "hakobu",
            goals: &[times("rclone", 3.0, 3.0), times("rclone at its best", 1.1, 1.1)],
        },
        TableRow {
            key: "link-small-rate",
            title: "seconds for that: the link carries it in 0.41",
            method: "hakobu",
            goals: &[alone(
                GoalQuantity::Seconds,
                on_link(5_000 * (10 << 10), 0.9),
                on_link(5_000 * (10 << 10), 0.95),
            )],
        },
    ],
    ..LINK_LARGE
};

/// All groups. Groups with the same source are adjacent.
pub const GROUPS: &[Group] = &[
    LARGE_UP, LARGE_DOWN, KILLED, SMALL_UP, SMALL_DOWN, UNCHANGED, BETWEEN, MILLION, LINK_LARGE, LINK_SMALL,
];
