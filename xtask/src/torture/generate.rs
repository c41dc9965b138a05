//! Generates random trees: with usual content, unusual content, and sizes around each threshold.

use super::model::{
    Attribute, AttributeValue, Content, FileExtent, Fill, ModelTree, Name, NodeKind, Time, TreeNode,
};
use super::rng::Rng;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Sizes at which behaviour changes: sectors, blocks, pages, buffers, the limit of packs (256 KiB), pieces (256 KiB)
/// and steps (1 MiB), chunks (4 MiB), the search for moved content (4 MiB), journals (64 MiB), 2 and 4 GiB.
const THRESHOLDS: &[u64] = &[
    1,
    2,
    512,
    KIB,
    4 * KIB,
    8 * KIB,
    32 * KIB,
    64 * KIB,
    128 * KIB,
    255 * KIB,
    256 * KIB,
    260 * KIB,
    512 * KIB,
    MIB,
    MIB + 256 * KIB,
    2 * MIB,
    4 * MIB,
    8 * MIB,
    16 * MIB,
    64 * MIB,
    65 * MIB,
    2 * GIB,
    4 * GIB,
    5 * GIB,
];

/// Lengths with which data and holes alternate, in bytes.
const GRANULARITIES: &[u64] = &[1, 2, 512, 513, 4095, 4096, 4097, 8 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB];

/// A name that looks like that of a draft but has a wrong checksum.
pub const LIKE_A_DRAFT: &str = ".hakobu.abcdefghijklmnopqrstuvwxyz";

/// Returns true if this is the name of a file that a run has left. Excludes [`LIKE_A_DRAFT`], which is generated, and
/// names with an ending that faults add.
pub fn is_draft(base: &[u8]) -> bool {
    let is_ours = [b".tampered".as_slice(), b".meddled"].iter().any(|ending| base.ends_with(ending));
    base.starts_with(b".hakobu.") && base != LIKE_A_DRAFT.as_bytes() && !is_ours
}

/// The limits of a generated tree.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The maximum number of entries.
    pub entries: u64,
    /// The maximum number of bytes written, in all files together.
    pub data_bytes: u64,
    /// The maximum size of a file in bytes, holes included.
    pub size_bytes: u64,
    /// True if device nodes and sockets are generated.
    pub special: bool,
    /// The maximum length of a name in bytes.
    pub name_bytes: usize,
    /// The maximum size of an attribute's value in bytes.
    pub value_bytes: usize,
}

/// Returns a random tree.
pub fn tree(rng: &mut Rng, limits: Limits) -> ModelTree {
    let mut maker = TreeGenerator { rng, limits, data_left: limits.data_bytes, nodes: Vec::new() };
    let root = maker.node(Name::default(), NodeKind::Directory);
    maker.nodes.push(root);
    let count = maker.rng.between(1, limits.entries);
    for _ in 0..count {
        maker.add();
    }
    ModelTree { nodes: maker.nodes }
}

/// Returns another random entry for a tree, with an unused name.
pub fn further(rng: &mut Rng, limits: Limits, tree: &ModelTree) -> TreeNode {
    let mut maker = TreeGenerator { rng, limits, data_left: limits.data_bytes, nodes: tree.nodes.clone() };
    maker.add();
    maker.nodes.pop().unwrap_or_else(|| maker.node(Name(b"further".to_vec()), NodeKind::Directory))
}

struct TreeGenerator<'a> {
    rng: &'a mut Rng,
    limits: Limits,
    data_left: u64,
    nodes: Vec<TreeNode>,
}

impl TreeGenerator<'_> {
    fn add(&mut self) {
        let directories: Vec<&TreeNode> =
            self.nodes.iter().filter(|node| node.kind == NodeKind::Directory).collect();
        // Prefer the newest directory, so that some trees become deep.
        let at = if self.rng.percent(40) {
            directories.len() - 1
        } else {
            self.rng.below(directories.len() as u64) as usize
        };
        let directory = directories[at].path.clone();
        let files: Vec<Name> = self
            .nodes
            .iter()
            .filter(|node| matches!(node.kind, NodeKind::File(_)))
            .map(|node| node.path.clone())
            .collect();
        let kind = match self.rng.weighted(&[
            22,
            60,
            8,
            3,
            if self.limits.special { 2 } else { 0 },
            if files.is_empty() { 0 } else { 8 },
        ]) {
            0 => NodeKind::Directory,
            1 => NodeKind::File(content_within(self.rng, self.limits, &mut self.data_left)),
            2 => NodeKind::Link(link_target(self.rng)),
            3 => NodeKind::Pipe,
            4 if self.rng.percent(50) => NodeKind::Device(1, self.rng.between(3, 9) as u32),
            4 => NodeKind::Socket,
            _ => NodeKind::SameAs(files[self.rng.below(files.len() as u64) as usize].clone()),
        };
        let mut path = directory.join(&name(self.rng, self.limits));
        let mut number = 0;
        while path.0.len() > 900 || self.nodes.iter().any(|node| node.path == path) {
            path = directory.join(format!("n{}-{number}", self.nodes.len()).as_bytes());
            number += 1;
            if path.0.len() > 900 {
                path = Name(format!("n{}-{number}", self.nodes.len()).into_bytes());
            }
        }
        let node = self.node(path, kind);
        self.nodes.push(node);
    }

    fn node(&mut self, path: Name, kind: NodeKind) -> TreeNode {
        let rng = &mut *self.rng;
        let owner =
            |rng: &mut Rng| if rng.percent(60) { 0 } else { rng.pick(&[1, 33, 1000, 65534, 4_294_967_290]) };
        let mut mode = match (&kind, rng.below(10)) {
            (NodeKind::Directory, 0..6) => 0o755,
            (_, 0..6) => 0o644,
            _ => rng.below(0o1000) as u32,
        };
        if rng.percent(6) {
            mode |= rng.pick(&[0o1000, 0o2000, 0o4000, 0o6000, 0o7000]);
        }
        let attributes = attributes(rng, &kind, self.limits.value_bytes);
        TreeNode { path, kind, mode, uid: owner(rng), gid: owner(rng), mtime: time(rng), attributes }
    }
}

/// Returns a name of one component: plain, long, or of arbitrary bytes.
pub fn name(rng: &mut Rng, limits: Limits) -> Vec<u8> {
    let mut name = any_name(rng);
    name.truncate(limits.name_bytes);
    name
}

fn any_name(rng: &mut Rng) -> Vec<u8> {
    const PARTS: &[&str] = &[
        "a",
        "b",
        "file",
        "data",
        "x.txt",
        "y.o",
        "z.tmp",
        "index",
        "Makefile",
        "core",
        ".hidden",
        "-rf",
        "--delete",
        "a b",
        "日本",
        "ä",
        "é",
        "e\u{301}",
        "*",
        "[a]",
        "?",
        "\\",
        "'",
        "\"",
        "$HOME",
        "host:x",
        "\n",
        "\t",
        "~",
        "#",
        "!",
        "%41",
        "\u{202e}txt",
        ".hakobu",
        "CON",
        "a.",
        "lost+found",
        ".nfs0001",
    ];
    match rng.below(20) {
        0 => {
            let mut bytes = super::rng::noise(rng.next(), rng.between(1, 12) as usize);
            bytes.iter_mut().filter(|byte| matches!(**byte, 0 | b'/')).for_each(|byte| *byte = b'_');
            if matches!(bytes.as_slice(), b"." | b"..") { b"_".to_vec() } else { bytes }
        }
        1 => vec![b'l'; rng.pick(&[100, 143, 144, 200, 228, 229, 254, 255])],
        2 => [b'\xff', b'\xfe', b'x'].to_vec(),
        3 if rng.percent(20) => LIKE_A_DRAFT.as_bytes().to_vec(),
        4..9 => rng.pick(PARTS).as_bytes().to_vec(),
        _ => format!("{}{}", rng.pick(&["f", "g", "a", "n.", "k"]), rng.below(60)).into_bytes(),
    }
}

fn link_target(rng: &mut Rng) -> Name {
    let text: &[u8] = match rng.below(7) {
        0 => b"a",
        1 => b"../b",
        2 => b"/etc/passwd",
        3 => b"/nonexistent/\xff",
        4 => b".",
        5 => return Name(vec![b't'; rng.pick(&[1, 59, 60, 255, 1000, 4095])]),
        _ => b"dangling",
    };
    Name(text.to_vec())
}

/// Returns a time: mostly of recent years, some before 1970, after 2038 and after 2106, with all kinds of fractions.
pub fn time(rng: &mut Rng) -> Time {
    let s = match rng.below(20) {
        0 => -(rng.below(1 << 31) as i64),
        1 => {
            rng.pick(&[0, -1, 1, i64::from(i32::MAX), i64::from(i32::MAX) + 1, 4_294_967_295, 4_294_967_296])
        }
        2 => rng.between(4_294_967_296, 9_000_000_000) as i64,
        _ => rng.between(1_000_000_000, 1_760_000_000) as i64,
    };
    let ns = match rng.below(4) {
        0 => 0,
        1 => rng.pick(&[1, 999_999_999, 500_000_000, 100, 1000, 1_000_000]),
        _ => rng.below(1_000_000_000) as u32,
    };
    Time { s, ns }
}

fn attributes(rng: &mut Rng, kind: &NodeKind, value_bytes: usize) -> Vec<Attribute> {
    let mut found = Vec::new();
    let user = matches!(kind, NodeKind::File(_) | NodeKind::Directory);
    if !user || rng.percent(70) {
        return found;
    }
    for number in 0..rng.pick(&[1, 1, 1, 2, 3, 12]) {
        let space = rng.pick(&["user", "user", "user", "trusted"]);
        let value = match rng.below(8) {
            0 => AttributeValue::Text(Name::default()),
            1 => {
                let length = rng.pick(&[255, 1024, 3000, 4000, 4096, 16_384, 65_536]);
                AttributeValue::Noise(length.min(value_bytes), rng.next())
            }
            _ => AttributeValue::Text(Name(format!("value {number}").into_bytes())),
        };
        let name = if rng.percent(3) { "n".repeat(240) } else { format!("a{number}") };
        found.push(Attribute { name: Name(format!("{space}.{name}").into_bytes()), value });
    }
    if rng.percent(30) {
        found.push(list(rng, "system.posix_acl_access"));
    }
    if *kind == NodeKind::Directory && rng.percent(25) {
        found.push(list(rng, "system.posix_acl_default"));
    }
    if matches!(kind, NodeKind::File(_)) && rng.percent(8) {
        found.push(Attribute {
            name: Name(b"security.capability".to_vec()),
            value: AttributeValue::Capability,
        });
    }
    found
}

/// Returns a random access control list.
pub fn list(rng: &mut Rng, name: &str) -> Attribute {
    let many = rng.pick(&[1, 1, 2, 5, 30]);
    let users = (0..many).map(|user| (1000 + user, rng.below(8) as u16)).collect();
    let mut permissions = || rng.below(8) as u16;
    let basic = [permissions(), permissions(), permissions(), permissions()];
    Attribute { name: Name(name.as_bytes().to_vec()), value: AttributeValue::List(basic, users) }
}

fn fill(rng: &mut Rng) -> Fill {
    match rng.below(10) {
        0 => Fill::Zeros,
        1..5 => Fill::Noise(rng.next()),
        _ => Fill::Count(rng.below(1_000_000_000)),
    }
}

fn size(rng: &mut Rng, most: u64) -> u64 {
    let around = |rng: &mut Rng, size: u64| match rng.below(6) {
        0 => size - 1,
        1 => size + 1,
        2 => size.saturating_sub(rng.below(5000)),
        3 => size + rng.below(5000),
        _ => size,
    };
    let size = match rng.below(10) {
        0 => 0,
        1..5 => rng.below(20 * KIB),
        5 => rng.below(600 * KIB),
        _ => {
            let reach = THRESHOLDS.iter().filter(|size| **size <= most).count().max(1);
            let threshold = THRESHOLDS[rng.below(reach as u64) as usize];
            around(rng, threshold)
        }
    };
    size.min(most)
}

fn content_within(rng: &mut Rng, limits: Limits, data_left: &mut u64) -> Content {
    let size = size(rng, limits.size_bytes);
    let mut content = Content { size, extents: Vec::new() };
    let add = |rng: &mut Rng, content: &mut Content, at: u64, length: u64, data_left: &mut u64| {
        let length = length.min(size.saturating_sub(at)).min(*data_left);
        if length > 0 {
            *data_left -= length;
            content.extents.push(FileExtent { at, length, fill: fill(rng) });
        }
    };
    // The length of a piece of data at the start, in the middle, or at the end.
    let piece = |rng: &mut Rng| rng.pick(&[1, 9, 512, 4095, 4096, 4097, 20_000, 70_000]);
    match rng.below(10) {
        // Full of data, if the limit allows.
        0..4 if size <= *data_left => add(rng, &mut content, 0, size, data_left),
        0..2 => {
            let length = piece(rng);
            add(rng, &mut content, 0, length, data_left);
        }
        2..4 => {
            let length = piece(rng);
            add(rng, &mut content, size.saturating_sub(length), length, data_left);
        }
        4 => {} // all of it a hole
        5 => {
            let length = piece(rng);
            add(rng, &mut content, 0, length, data_left);
            let length = piece(rng);
            add(rng, &mut content, size.saturating_sub(length), length, data_left);
        }
        6 | 7 => {
            // Data and holes alternate.
            let step = rng.pick(GRANULARITIES);
            let mut at = if rng.percent(50) { 0 } else { step };
            for _ in 0..rng.between(1, 12) {
                if at >= size {
                    break;
                }
                add(rng, &mut content, at, step, data_left);
                at += step * rng.between(2, 4);
            }
        }
        _ => {
            for _ in 0..rng.between(1, 6) {
                let at = rng.below(size.max(1));
                let at = if rng.percent(50) { at / 4096 * 4096 } else { at };
                let length = piece(rng);
                add(rng, &mut content, at, length, data_left);
            }
        }
    }
    content
}
