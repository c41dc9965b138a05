//! Writes a history as a script of plain commands, with `$1` as the program. It exits with 0 if right, 1 if wrong.

use std::fmt::Write;

use super::check::{Proof, Violation};
use super::history::{History, HistoryEvent};
use super::model::{Attribute, Content, FileExtent, Fill, ModelTree, Name, NodeKind, Time, TreeNode};
use super::mutate::Mutation;
use super::play::{HistoryFailure, locations};
use super::shell_word::quoted;
use super::step::{Shape, Step, StepVerb};

/// Writes a line. Writing to memory cannot fail.
macro_rules! put {
    ($p:expr, $($words:tt)*) => {{
        let _ = writeln!($p, $($words)*);
    }};
}

/// Returns the script of a failure.
pub fn of(history: &History, failure: &HistoryFailure) -> String {
    let mut script = String::from(
        "#!/bin/bash\n# $1: the program. Exits with 0 where it is right, and with 1 where it is wrong.\n",
    );
    let _ = writeln!(
        script,
        "# Seed {}, {} to {}, {}.",
        history.seed,
        history.setting.source,
        history.setting.target,
        history.setting.route.name()
    );
    for violation in failure.violations.iter().take(4) {
        let _ = writeln!(script, "# {}", violation.to_string().replace('\n', " "));
    }
    let p = &mut script;
    p.push_str("program=$(realpath \"${1:-hakobu}\"); cd \"$(mktemp -d)\" || exit 77; mkdir side; s=source t=side/target; umask 022\n");
    p.push_str(small_side(&history.setting.target));
    helpers(p, history);
    tree(p, &history.source, "$s");
    if let Some(target) = &history.target {
        tree(p, target, "$t");
    }
    for (index, event) in history.events.iter().enumerate().take(failure.event + 1) {
        let last = index == failure.event;
        match event {
            HistoryEvent::Source(mutation) => change(p, mutation, "$s"),
            HistoryEvent::Target(mutation) => change(p, mutation, "$t"),
            HistoryEvent::Space(headroom) => p.push_str(&headroom.commands()),
            HistoryEvent::Run(step) | HistoryEvent::Interrupted(step) => {
                if let Some(fault) = &step.fault {
                    let _ =
                        writeln!(p, "# Here it went wrong like this, which a script does not do: {fault:?}");
                }
                if step.fleet.is_some() {
                    p.push_str("# A fleet carried this out, which a script does not do.\n");
                }
                if last {
                    p.push_str("cp -a side before 2>/dev/null\n");
                }
                run(p, step, index);
                if last {
                    prove(p, step, &failure.violations[0]);
                }
            }
        }
    }
    script
}

/// Returns the commands that mount a target with little space, as root.
fn small_side(target: &str) -> &'static str {
    match target {
        "smalltmpfs" => {
            "mount -t tmpfs -o size=16m,nr_inodes=1000 tmpfs side || exit 77; trap 'umount side' EXIT\n"
        }
        "fullinodes" => {
            "mount -t tmpfs -o size=256m,nr_inodes=200 tmpfs side || exit 77; trap 'umount side' EXIT\n"
        }
        "smallxfs" => {
            "truncate -s 300M image; mkfs.xfs -q -f image; mount -o loop image side || exit 77; trap 'umount side' EXIT\n"
        }
        "fullbytes" => {
            "truncate -s 32M image; mkfs.ext4 -q -F -m 0 -J size=4 image; mount -o loop image side || exit 77; trap 'umount side' EXIT\n"
        }
        _ => "",
    }
}

fn helpers(p: &mut String, history: &History) {
    let text = serde_json::to_string(history).unwrap_or_default();
    if text.contains("Count") {
        p.push_str("count() { seq \"$1\" 9999999999 | head -c \"$2\"; }\n");
    }
    if text.contains("Noise") {
        p.push_str("noise() { openssl enc -aes-128-ctr -nosalt -K $(printf %032x \"$1\") -iv 0 2>/dev/null </dev/zero | head -c \"$2\"; }\n");
    }
    if text.contains("extents\":[{") || text.contains("Write") || text.contains("Rewrite") {
        p.push_str("at() { dd of=\"$1\" bs=1M oflag=seek_bytes seek=\"$2\" conv=notrunc iflag=fullblock status=none; }\n");
    }
}

fn place(root: &str, path: &Name) -> String {
    if path.0.is_empty() { root.to_owned() } else { format!("{root}/{}", quoted(&path.0)) }
}

fn tree(p: &mut String, tree: &ModelTree, root: &str) {
    for node in &tree.nodes {
        make(p, node, root);
    }
    for node in tree.nodes.iter().filter(|node| node.kind != NodeKind::Directory) {
        dress(p, node, root);
    }
    for node in tree.nodes.iter().rev().filter(|node| node.kind == NodeKind::Directory) {
        dress(p, node, root);
    }
}

fn make(p: &mut String, node: &TreeNode, root: &str) {
    let at = place(root, &node.path);
    match &node.kind {
        NodeKind::Directory => put!(p, "mkdir {at}"),
        NodeKind::File(content) => file(p, content, &at),
        NodeKind::Link(to) => put!(p, "ln -s {} {at}", quoted(&to.0)),
        NodeKind::Pipe => put!(p, "mkfifo {at}"),
        NodeKind::Device(major, minor) => put!(p, "mknod {at} c {major} {minor}"),
        NodeKind::Socket => {
            let _ = writeln!(
                p,
                "python3 -c 'import os,stat,sys; os.mknod(sys.argv[1], stat.S_IFSOCK|0o600)' {at}"
            );
        }
        NodeKind::SameAs(other) => put!(p, "ln {} {at}", place(root, other)),
    }
}

fn file(p: &mut String, content: &Content, at: &str) {
    if content.size > 0 || content.extents.is_empty() {
        let _ = writeln!(p, "truncate -s {} {at}", content.size);
    }
    for extent in &content.extents {
        let _ = writeln!(p, "{}", write(*extent, at));
    }
}

fn write(extent: FileExtent, at: &str) -> String {
    let from = match extent.fill {
        Fill::Count(start) => format!("count {start} {}", extent.length),
        Fill::Noise(seed) => format!("noise {seed} {}", extent.length),
        Fill::Zeros => format!("head -c {} /dev/zero", extent.length),
    };
    format!("{from} | at {at} {}", extent.at)
}

fn dress(p: &mut String, node: &TreeNode, root: &str) {
    if matches!(node.kind, NodeKind::SameAs(_)) {
        return;
    }
    let at = place(root, &node.path);
    if (node.uid, node.gid) != (0, 0) {
        let _ = writeln!(p, "chown -h {}:{} {at}", node.uid, node.gid);
    }
    let usual = if node.kind == NodeKind::Directory { 0o755 } else { 0o644 };
    if node.mode != usual && !matches!(node.kind, NodeKind::Link(_)) {
        let _ = writeln!(p, "chmod {:04o} {at}", node.mode);
    }
    for attribute in &node.attributes {
        set(p, attribute, &at);
    }
    if node.mtime != Time::default() {
        time(p, node.mtime, &at);
    }
}

fn set(p: &mut String, attribute: &Attribute, at: &str) {
    let mut hex = String::from("0x");
    for byte in attribute.value.bytes() {
        let _ = write!(hex, "{byte:02x}");
    }
    if hex.len() > 400 && attribute.name.0.starts_with(b"user") {
        // Only the length of the value matters here. Arguments of the shell are limited to 128 KiB.
        let length = attribute.value.bytes().len();
        let _ = writeln!(
            p,
            "python3 -c 'import os,sys; os.setxattr(sys.argv[1], sys.argv[2], b\"v\"*{length}, follow_symlinks=False)' {at} {}",
            quoted(&attribute.name.0)
        );
    } else {
        let _ = writeln!(p, "setfattr -h -n {} -v {hex} {at}", quoted(&attribute.name.0));
    }
}

fn time(p: &mut String, time: Time, at: &str) {
    let _ = writeln!(p, "touch -h -d @{}.{:09} {at}", time.s, time.ns);
}

fn change(p: &mut String, mutation: &Mutation, root: &str) {
    let keep_time = |p: &mut String, at: &str, what: &str| {
        let _ = writeln!(p, "touch -r {at} stamp; {what}; touch -r stamp {at}");
    };
    match mutation {
        Mutation::RewriteKeepingTime(path, extent) => {
            let at = place(root, path);
            keep_time(p, &at, &write(*extent, &at));
        }
        Mutation::ReplaceKeepingTime(path, seed) => {
            let at = place(root, path);
            keep_time(p, &at, &format!("z=$(stat -c %s {at}); rm {at}; noise {seed} $z >{at}"));
        }
        Mutation::Write(path, extent, when) => {
            let at = place(root, path);
            let _ = writeln!(p, "{}", write(*extent, &at));
            time(p, *when, &at);
        }
        Mutation::Resize(path, size, when) => {
            let at = place(root, path);
            let _ = writeln!(p, "truncate -s {size} {at}");
            time(p, *when, &at);
        }
        Mutation::Punch(path, from, length, when) => {
            let at = place(root, path);
            let _ = writeln!(p, "fallocate -p -o {from} -l {length} {at}");
            time(p, *when, &at);
        }
        Mutation::Insert(path, length, when) => {
            let at = place(root, path);
            let _ = writeln!(p, "(seq 7 9999999 | head -c {length}; cat {at}) >stamp; cat stamp >{at}");
            time(p, *when, &at);
        }
        Mutation::Remove(path) => put!(p, "rm -rf {}", place(root, path)),
        Mutation::Put(node) => {
            let _ = writeln!(p, "rm -rf {}", place(root, &node.path));
            make(p, node, root);
            dress(p, node, root);
        }
        Mutation::Rename(from, to) => put!(p, "mv -nT {} {}", place(root, from), place(root, to)),
        Mutation::LinkTo(old, new) => put!(p, "ln -fT {} {}", place(root, old), place(root, new)),
        Mutation::Separate(path) => {
            let at = place(root, path);
            let _ = writeln!(p, "cp -a {at} stamp; mv -f stamp {at}");
        }
        Mutation::Retext(path) => {
            let at = place(root, path);
            let _ = writeln!(
                p,
                "o=$(readlink {at}; printf .); o=${{o%??}}; n=${{o%?}}x; [ \"$n\" != \"$o\" ] || n=${{o%?}}y; \
                 ln -s -- \"$n\" stamp; touch -hr {at} stamp; chown -hP --reference={at} stamp; mv -fT stamp {at}"
            );
        }
        Mutation::Mode(path, mode) => put!(p, "chmod {mode:04o} {}", place(root, path)),
        Mutation::Owner(path, user, group) => put!(p, "chown -h {user}:{group} {}", place(root, path)),
        Mutation::SetTime(path, when) => time(p, *when, &place(root, path)),
        Mutation::Set(path, attribute) => set(p, attribute, &place(root, path)),
        Mutation::Bare(path) => {
            let at = place(root, path);
            let _ = writeln!(
                p,
                "setfacl -bk {at}; getfattr -h -m - {at} | sed 1d | xargs -r -I{{}} setfattr -h -x {{}} {at}"
            );
        }
    }
}

fn command_line(step: &Step, index: usize) -> String {
    let mut line = format!("\"$program\" {}", step.verb.word());
    for word in step.options(std::path::Path::new(&format!("list{index}"))) {
        line.push(' ');
        line.push_str(&quoted(std::os::unix::ffi::OsStrExt::as_bytes(word.as_os_str())));
    }
    for word in locations(step, std::path::Path::new("source"), std::path::Path::new("side")) {
        line.push(' ');
        line.push_str(&quoted(std::os::unix::ffi::OsStrExt::as_bytes(word.as_os_str())));
    }
    line
}

fn run(p: &mut String, step: &Step, index: usize) {
    if step.files_from.is_some() {
        let text: String = step.list().iter().map(|byte| format!("\\x{byte:02x}")).collect();
        let _ = writeln!(p, "printf '{text}' >list{index}");
    }
    let _ = writeln!(p, "{} </dev/null; code=$?", command_line(step, index));
}

fn prove(p: &mut String, step: &Step, violation: &Violation) {
    let (source, target, before) = match &step.shape {
        Shape::OneFile(path) => (place("$s", path), "side/one".to_owned(), "before/one".to_owned()),
        Shape::Directory => ("$s".to_owned(), "$t/source".to_owned(), "before/target/source".to_owned()),
        _ => ("$s".to_owned(), "$t".to_owned(), "before/target".to_owned()),
    };
    // Kind, mode, owner, size, time and link target, then content, then attributes.
    let look = "look() { stat -c '%f %u:%g %.Y %N' \"$1\" | sed \"s|${1//\\\\/}||\"; [ -f \"$1\" ] && [ ! -L \"$1\" ] && stat -c %s \"$1\" && sha256sum <\"$1\"; \
                getfattr -hd -m - -e hex \"$1\" 2>/dev/null | sed 1d; true; }\n";
    let path = violation.path.clone().unwrap_or_default();
    match &violation.proof {
        Proof::Code(codes) => {
            let tests: Vec<String> = codes.iter().map(|code| format!("[ $code = {code} ]")).collect();
            let _ = writeln!(p, "{} || exit 1", tests.join(" || "));
        }
        Proof::Absent => put!(p, "[ ! -e {0} ] && [ ! -L {0} ] || exit 1", place(&target, &path)),
        Proof::LikeSource | Proof::LikeBefore => {
            let like = if violation.proof == Proof::LikeSource {
                place(&source, &path)
            } else {
                place(&before, &path)
            };
            p.push_str(look);
            let _ = writeln!(p, "diff <(look {like}) <(look {}) || exit 1", place(&target, &path));
        }
        Proof::Stable if step.verb != StepVerb::Verify => {
            let _ = writeln!(p, "all() {{ find {target} -printf '%p %i %C@ %s %m\\n' | sort; }}; all >one");
            let _ = writeln!(p, "{} </dev/null; all >two; diff one two || exit 1", command_line(step, 0));
        }
        _ => {
            let _ = writeln!(p, "# Only the oracle can tell: cargo xtask torture --replay history.json");
            let _ = writeln!(p, "exit 77");
        }
    }
    let _ = writeln!(p, "exit 0");
}
