//! A step of a history: a hakobu command line, as data.
//!
//! The promise of a step is in [`promise`](super::promise), its hosts and transport are in [`route`](super::route).

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use super::environment::faults::Fault;
use super::fleet_step::FleetStep;
use super::model::{ModelTree, Name, NodeKind, TreeNode};
use super::rng::Rng;

/// The command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepVerb {
    /// `copy`
    Copy,
    /// `sync`
    Sync,
    /// `verify`
    Verify,
    /// `digest --algorithm sha256` of the source.
    Digest,
}

/// The form of source and target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shape {
    /// `source/` to `target`: the contents of the source become those of the target.
    Contents,
    /// `source` to `target`: the directory is created in the target.
    Directory,
    /// A single file to `one`, next to the target.
    OneFile(Name),
}

/// A rule of `--exclude` or `--include`. The patterns are simple enough for the oracle's own matching.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// True for `--include`, false for `--exclude`.
    pub include: bool,
    /// The pattern.
    pub pattern: RulePattern,
}

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RulePattern {
    /// `*SUFFIX`: names at any depth with this ending.
    Suffix(String),
    /// `NAME`: this name at any depth.
    Base(String),
    /// `NAME/`: directories of this name at any depth.
    Directories(String),
    /// `/PATH`: this path only.
    Path(String),
    /// `[[:alpha:]]*`: names that begin with a letter; a POSIX class.
    Letter,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The command.
    pub verb: StepVerb,
    /// The form of source and target.
    pub shape: Shape,
    /// True to copy back from the store, to a tree of this machine.
    #[serde(default)]
    pub from_store: bool,
    /// `--delete`.
    #[serde(default)]
    pub delete: bool,
    /// `--delete-during` instead of `--delete`.
    #[serde(default)]
    pub during: bool,
    /// `--max-delete 100%`. Without it at most half of the target is deleted.
    #[serde(default)]
    pub all_may_go: bool,
    /// `--in-place`
    #[serde(default)]
    pub in_place: bool,
    /// `--whole-file`
    #[serde(default)]
    pub whole_file: bool,
    /// `--compare digest`
    #[serde(default)]
    pub by_digest: bool,
    /// `--dry-run`
    #[serde(default)]
    pub dry_run: bool,
    /// `--verify HOW`
    #[serde(default)]
    pub check: Option<String>,
    /// The metadata that `--preserve no-…` excludes: owner, acl, xattr, hardlinks.
    #[serde(default)]
    pub without: Vec<String>,
    /// Filter rules, in order.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// `--files-from`: these paths only.
    #[serde(default)]
    pub files_from: Option<Vec<Name>>,
    /// `--min-size` and `--max-size`.
    #[serde(default)]
    pub sizes: Option<(u64, u64)>,
    /// `--itemize`
    #[serde(default)]
    pub itemize: bool,
    /// `--json`
    #[serde(default)]
    pub json: bool,
    /// `--log-file`, with a new file.
    #[serde(default)]
    pub log: bool,
    /// Options that do not affect the promise.
    #[serde(default)]
    pub manner: Vec<String>,
    /// The fault during the step.
    #[serde(default)]
    pub fault: Option<Fault>,
    /// How a fleet carries it out, if one does.
    #[serde(default)]
    pub fleet: Option<FleetStep>,
}

impl Step {
    /// Returns a step with nothing but a command and a form.
    pub fn plain(verb: StepVerb, shape: Shape) -> Self {
        Self {
            verb,
            shape,
            from_store: false,
            delete: false,
            during: false,
            all_may_go: false,
            in_place: false,
            whole_file: false,
            by_digest: false,
            dry_run: false,
            check: None,
            without: Vec::new(),
            rules: Vec::new(),
            files_from: None,
            sizes: None,
            itemize: false,
            json: false,
            log: false,
            manner: Vec::new(),
            fault: None,
            fleet: None,
        }
    }

    /// Returns true if the step writes to the target.
    pub fn writes(&self) -> bool {
        matches!(self.verb, StepVerb::Copy | StepVerb::Sync) && !self.dry_run
    }

    /// Returns the step as a verification of the same selection.
    pub fn as_verify(&self) -> Self {
        Self {
            from_store: self.from_store,
            without: self.without.clone(),
            rules: self.rules.clone(),
            files_from: self.files_from.clone(),
            sizes: self.sizes,
            ..Self::plain(StepVerb::Verify, self.shape.clone())
        }
    }

    /// Returns true if `--preserve` excludes `what`.
    pub fn is_without(&self, what: &str) -> bool {
        self.without.iter().any(|left_out| left_out == what)
    }

    /// Returns the options, without those of the transport. `list` is the file for `--files-from`.
    pub fn options(&self, list: &std::path::Path) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        let mut flag = |on: bool, word: &str| {
            if on {
                words.push(word.into());
            }
        };
        // Digests of trees are BLAKE3, which the oracle does not have.
        flag(self.verb == StepVerb::Digest && matches!(self.shape, Shape::OneFile(_)), "--algorithm=sha256");
        flag(self.delete && !self.during, "--delete");
        flag(self.during, "--delete-during");
        flag(self.all_may_go, "--max-delete=100%");
        flag(self.in_place, "--in-place");
        flag(self.whole_file, "--whole-file");
        flag(self.by_digest, "--compare=digest");
        flag(self.dry_run, "--dry-run");
        if let Some(how) = &self.check {
            words.push(format!("--verify={how}").into());
        }
        if !self.without.is_empty() {
            let list: Vec<String> = self.without.iter().map(|what| format!("no-{what}")).collect();
            words.push(format!("--preserve={}", list.join(",")).into());
        }
        for rule in &self.rules {
            words.push(if rule.include { "--include" } else { "--exclude" }.into());
            words.push(rule.pattern.text().into());
        }
        if self.files_from.is_some() {
            words.push("--files-from".into());
            words.push(list.into());
        }
        if let Some((least, most)) = self.sizes {
            words.push(format!("--min-size={least}B").into());
            words.push(format!("--max-size={most}B").into());
        }
        words.extend(self.itemize.then(|| "--itemize".into()));
        words.extend(self.json.then(|| "--json".into()));
        words.extend(self.manner.iter().map(OsString::from));
        words
    }

    /// Returns the content of the file for `--files-from`.
    pub fn list(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for path in self.files_from.iter().flatten() {
            bytes.extend_from_slice(&path.0);
            bytes.push(0);
        }
        bytes
    }
}

impl StepVerb {
    /// Returns the command's name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Sync => "sync",
            Self::Verify => "verify",
            Self::Digest => "digest",
        }
    }
}

impl RulePattern {
    /// Returns the pattern as it is typed.
    pub fn text(&self) -> String {
        match self {
            Self::Suffix(suffix) => format!("*{suffix}"),
            Self::Base(name) => name.clone(),
            Self::Directories(name) => format!("{name}/"),
            Self::Path(path) => format!("/{path}"),
            Self::Letter => "[[:alpha:]]*".to_owned(),
        }
    }

    /// Returns true if the pattern matches an entry itself. Parent directories are matched separately.
    pub fn matches(&self, path: &Name, is_directory: bool) -> bool {
        let base = path.base();
        match self {
            Self::Suffix(suffix) => base.ends_with(suffix.as_bytes()),
            Self::Base(name) => base == name.as_bytes(),
            Self::Directories(name) => is_directory && base == name.as_bytes(),
            Self::Path(whole) => path.0 == whole.as_bytes(),
            Self::Letter => base.first().is_some_and(u8::is_ascii_alphabetic),
        }
    }
}

/// Returns a random step for a source that began as `tree`.
pub fn random(rng: &mut Rng, tree: &ModelTree) -> Step {
    let verb = match rng.below(12) {
        0..5 => StepVerb::Copy,
        5..10 => StepVerb::Sync,
        10 => StepVerb::Verify,
        _ => StepVerb::Digest,
    };
    let files: Vec<&TreeNode> =
        tree.nodes.iter().filter(|node| matches!(node.kind, NodeKind::File(_))).collect();
    let shape = match rng.below(10) {
        0 => Shape::Directory,
        _ if verb == StepVerb::Digest && rng.percent(30) => Shape::Contents,
        number if !files.is_empty() && (number == 1 || verb == StepVerb::Digest) => {
            Shape::OneFile(files[rng.below(files.len() as u64) as usize].path.clone())
        }
        _ => Shape::Contents,
    };
    let mut step = Step::plain(verb, shape);
    let one = matches!(step.shape, Shape::OneFile(_));
    if verb == StepVerb::Digest {
        return step;
    }
    if !one {
        choose_what_takes_part(rng, &mut step, tree);
    }
    if rng.percent(15) {
        step.without.push(rng.pick(&["owner", "acl", "xattr", "hardlinks"]).to_owned());
    }
    if verb == StepVerb::Verify {
        return step;
    }
    if verb == StepVerb::Sync && !one {
        step.delete = rng.percent(75);
        step.during = step.delete && rng.percent(15);
        step.all_may_go = step.during || rng.percent(85);
    }
    if verb == StepVerb::Sync {
        step.in_place = rng.percent(15);
        step.whole_file = !step.in_place && rng.percent(15);
    }
    step.by_digest = rng.percent(25);
    step.dry_run = rng.percent(8);
    if rng.percent(25) {
        step.check = Some(rng.pick(&["wire", "wire", "none"]).to_owned());
    }
    if one && rng.percent(20) {
        step.check = Some("medium".to_owned());
    }
    if rng.percent(30) {
        step.manner.push("--durable=none".to_owned());
    }
    if rng.percent(30) {
        step.manner.push(format!("--lanes={}", rng.between(1, 8)));
    }
    if !step.dry_run {
        choose_lists(rng, &mut step);
    }
    step
}

/// Returns a random step that copies a store back, with what the source of the store began as.
pub fn from_store(rng: &mut Rng, tree: &ModelTree) -> Step {
    loop {
        let step = random(rng, tree);
        if step.shape == Shape::Contents && step.verb != StepVerb::Digest {
            return Step { from_store: true, ..step };
        }
    }
}

/// Chooses the lists of changes that a step that writes makes.
pub fn choose_lists(rng: &mut Rng, step: &mut Step) {
    step.itemize = rng.percent(30);
    step.json = rng.percent(12);
    step.log = rng.percent(25);
    if step.itemize && !step.json && rng.percent(50) {
        step.manner.push("--quiet".to_owned());
    }
}

fn choose_what_takes_part(rng: &mut Rng, step: &mut Step, tree: &ModelTree) {
    // Use only names that need no escaping in a pattern.
    let is_plain = |path: &Name| {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'_');
        !path.0.is_empty() && path.0.iter().all(plain)
    };
    let plain: Vec<&TreeNode> = tree.nodes.iter().filter(|node| is_plain(&node.path)).collect();
    if rng.percent(18) && !plain.is_empty() {
        for _ in 0..rng.between(1, 3) {
            let node = plain[rng.below(plain.len() as u64) as usize];
            let base = String::from_utf8_lossy(node.path.base()).into_owned();
            let pattern = match rng.below(9) {
                0 | 1 => RulePattern::Suffix(base.chars().last().map(String::from).unwrap_or_default()),
                2 | 3 => RulePattern::Base(base),
                4 => RulePattern::Directories(base),
                5 if rng.percent(15) => RulePattern::Letter,
                _ => RulePattern::Path(String::from_utf8_lossy(&node.path.0).into_owned()),
            };
            step.rules.push(Rule { include: rng.percent(25), pattern });
        }
    } else if rng.percent(8) {
        let some = tree.nodes.iter().filter(|node| !node.path.0.is_empty() && rng.percent(20));
        let mut list: Vec<Name> = some.map(|node| node.path.clone()).collect();
        // Some lists name a missing path.
        if rng.percent(10) {
            list.push(Name(b"not there".to_vec()));
        }
        if !list.is_empty() {
            step.files_from = Some(list);
        }
    } else if rng.percent(6) {
        let least = rng.pick(&[0, 1, 4096, 20_000]);
        step.sizes = Some((least, least + rng.pick(&[1, 100_000, 1 << 30])));
    }
}
