//! The options of rsync. If a version does not know an option, or a daemon refuses it, it is omitted from then on if
//! the copy can do without it, and the resulting loss is kept for the report.

use hakobu_core::extended::Classes;
use hakobu_core::losses::LossKind;
use hakobu_core::pace::RateSetting;

use super::output::FORMAT;
use hakobu_core::request::{CopyRequest, LaneSetting};

/// The directory for an interrupted file, next to its target; rsync removes the directory itself.
pub(super) const PARTIAL_DIRECTORY: &str = ".rsync-partial";
/// The number of connections that share a rate limit.
const LIMITED_LANES: usize = 4;
/// The timeout of rsync in seconds without a byte.
const SILENCE: &str = "--timeout=120";

/// The purpose of an rsync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RsyncPurpose {
    /// Examine one path: a directory itself if `inside` is set, otherwise whatever has the name.
    Look { inside: bool },
    /// List a tree.
    List,
    /// Create the target directory, or, at the end, set its attributes. `named` if it gets its name from the source.
    Top { last: bool, named: bool },
    /// Copy some files, of which some have or may have `holes`.
    Batch { holes: bool },
    /// Copy directories' attributes, symbolic links and nodes, once all files are copied.
    Finish,
    /// Copy one entry, which may get another name, and may have `holes`.
    Single { holes: bool },
    /// Copy the entries that directories were in the way of.
    Replace,
    /// Remove what was agreed to.
    Remove,
}

impl RsyncPurpose {
    /// Returns true if nothing is written.
    pub fn only_reads(self) -> bool {
        matches!(self, Self::Look { .. } | Self::List)
    }
}

/// One option.
#[derive(Clone, Debug)]
struct OptionRule {
    argument: String,
    /// The loss without it, if any.
    loss: Option<LossKind>,
    /// True if the copy is impossible without it.
    needed: bool,
    used: fn(RsyncPurpose) -> bool,
}

/// The options in use.
#[derive(Clone, Debug)]
pub(super) struct Options {
    choices: Vec<OptionRule>,
    left_out: Vec<OptionRule>,
    dry_run: bool,
}

/// The result of omitting an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OmittedOption {
    /// It is omitted from now on, with this loss.
    Now(Option<LossKind>),
    /// It was omitted before.
    Before,
    /// The copy is impossible without it.
    Needed,
}

const ALWAYS: fn(RsyncPurpose) -> bool = |_| true;
const WRITING: fn(RsyncPurpose) -> bool = |purpose| !purpose.only_reads();
const CONTENT: fn(RsyncPurpose) -> bool = |purpose| {
    matches!(
        purpose,
        RsyncPurpose::Batch { .. }
            | RsyncPurpose::Finish
            | RsyncPurpose::Replace
            | RsyncPurpose::Single { .. }
            | RsyncPurpose::Top { .. }
    )
};
/// Detecting holes costs the receiver a fifth of its work and more.
const HOLES: fn(RsyncPurpose) -> bool = |purpose| {
    CONTENT(purpose)
        && !matches!(purpose, RsyncPurpose::Batch { holes: false } | RsyncPurpose::Single { holes: false })
};
/// Directories get their times and modes at the end.
const EARLY: fn(RsyncPurpose) -> bool =
    |purpose| matches!(purpose, RsyncPurpose::Batch { .. } | RsyncPurpose::Top { last: false, .. });

impl Options {
    /// Returns the options for this request. `outward`: the source is on this host. `filters_attributes`: the installed
    /// rsync supports rules about the names of extended attributes.
    pub fn new(request: &CopyRequest, outward: bool, filters_attributes: bool) -> Self {
        let mut all = Self { choices: Vec::new(), left_out: Vec::new(), dry_run: request.dry_run };
        all.basic(request);
        all.kept(request, outward, filters_attributes);
        all.moving(request, outward);
        all
    }

    fn basic(&mut self, request: &CopyRequest) {
        self.needed(FORMAT, ALWAYS);
        self.able("--no-human-readable", ALWAYS);
        self.able("--outbuf=L", ALWAYS);
        self.able(SILENCE, ALWAYS);
        self.needed("--dry-run", RsyncPurpose::only_reads);
        self.needed("--dirs", |purpose| {
            matches!(purpose, RsyncPurpose::Look { .. } | RsyncPurpose::Top { named: false, .. })
        });
        // A missing path is an answer, not an error.
        self.able("--ignore-missing-args", |purpose| purpose == RsyncPurpose::Look { inside: false });
        self.needed("--recursive", |purpose| purpose == RsyncPurpose::List);
        self.needed("--exclude=/*", |purpose| {
            matches!(purpose, RsyncPurpose::Top { named: false, .. } | RsyncPurpose::Look { inside: true })
        });
        if request.one_file_system {
            self.needed("--one-file-system", |purpose| purpose == RsyncPurpose::List);
        }
        let lists = |purpose| {
            matches!(
                purpose,
                RsyncPurpose::Batch { .. }
                    | RsyncPurpose::Finish
                    | RsyncPurpose::Replace
                    | RsyncPurpose::Remove
                    | RsyncPurpose::Top { named: true, .. }
            )
        };
        self.needed("--files-from=-", lists);
        self.needed("--from0", lists);
        self.needed("--delete-missing-args", |purpose| purpose == RsyncPurpose::Remove);
        // A directory that leads to an entry to remove, and does not exist at the source either, stays.
        self.needed("--no-implied-dirs", |purpose| purpose == RsyncPurpose::Remove);
    }

    /// Adds the options for metadata.
    fn kept(&mut self, request: &CopyRequest, outward: bool, filters_attributes: bool) {
        self.needed("--links", ALWAYS);
        self.needed("--perms", ALWAYS);
        self.needed("--times", ALWAYS);
        let preserve = &request.preserve;
        if preserve.owner {
            self.losing("--owner", ALWAYS, LossKind::Owner);
            self.losing("--group", ALWAYS, LossKind::Owner);
            if !preserve.by_name {
                self.able("--numeric-ids", WRITING);
            }
        }
        // rsync reports the kind of such an entry only if it is asked to copy it.
        self.able("--specials", ALWAYS);
        match outward || request.allow.devices {
            true => self.able("--devices", ALWAYS),
            false => self.able("--devices", |purpose| !WRITING(purpose)),
        }
        if !outward && !request.allow.set_id {
            self.needed("--chmod=Fug-s", WRITING);
        }
        if preserve.extended.contains(Classes::ACL) {
            self.losing("--acls", CONTENT, LossKind::Acl);
        }
        if preserve.extended.contains(Classes::USER) {
            self.losing("--xattrs", CONTENT, LossKind::Xattr);
            // Capabilities are privileges like set-ID bits, and trusted attributes are for this host's root to decide.
            match outward || request.allow.set_id {
                true => {}
                false if filters_attributes => self.needed("--filter=-x! user.*", CONTENT),
                false => drop(self.leave_out("--xattrs")),
            }
        }
        if preserve.hard_links {
            let links = |purpose| {
                matches!(
                    purpose,
                    RsyncPurpose::List
                        | RsyncPurpose::Finish
                        | RsyncPurpose::Replace
                        | RsyncPurpose::Top { last: false, .. }
                )
            };
            self.losing("--hard-links", links, LossKind::HardLinks);
        }
    }

    /// Adds the options for content.
    fn moving(&mut self, request: &CopyRequest, _outward: bool) {
        self.losing("--sparse", HOLES, LossKind::Holes);
        self.able("--omit-dir-times", EARLY);
        // A directory without write permission would block the other connections until everything is copied.
        self.needed("--chmod=Du+rwx", EARLY);
        self.able(&format!("--partial-dir={PARTIAL_DIRECTORY}"), CONTENT);
        self.able("--info=progress2", |purpose| {
            matches!(purpose, RsyncPurpose::Batch { .. } | RsyncPurpose::Single { .. })
        });
        if request.whole_file {
            self.able("--whole-file", CONTENT);
        }
        if let Some(RateSetting::BytesPerSecond(bytes)) = request.limits.rate.constant() {
            // Each connection has its share, even if the others do not use theirs.
            let share = bytes / limited_lanes(request).unwrap_or(1) as u64;
            self.needed(&format!("--bwlimit={}", (share / 1024).max(1)), CONTENT);
        }
    }

    fn needed(&mut self, argument: &str, used: fn(RsyncPurpose) -> bool) {
        self.choices.push(OptionRule { argument: argument.to_owned(), loss: None, needed: true, used });
    }

    fn able(&mut self, argument: &str, used: fn(RsyncPurpose) -> bool) {
        self.choices.push(OptionRule { argument: argument.to_owned(), loss: None, needed: false, used });
    }

    fn losing(&mut self, argument: &str, used: fn(RsyncPurpose) -> bool, loss: LossKind) {
        let argument = argument.to_owned();
        self.choices.push(OptionRule { argument, loss: Some(loss), needed: false, used });
    }

    /// Returns the arguments for this purpose.
    pub fn arguments(&self, purpose: RsyncPurpose) -> impl Iterator<Item = &str> {
        let dry = (self.dry_run && WRITING(purpose)).then_some("--dry-run");
        let used = self.choices.iter().filter(move |choice| (choice.used)(purpose));
        used.map(|choice| &*choice.argument).chain(dry)
    }

    /// Omits the option with this long name.
    pub fn leave_out(&mut self, name: &str) -> OmittedOption {
        let is_it = |choice: &OptionRule| choice.argument.split('=').next() == Some(name);
        // A daemon that refuses `--delete` means all its variants; `--archive` is not used here.
        match self.choices.iter().position(is_it) {
            Some(at) if self.choices[at].needed => OmittedOption::Needed,
            Some(at) => {
                let choice = self.choices.remove(at);
                let loss = choice.loss;
                self.left_out.push(choice);
                OmittedOption::Now(loss)
            }
            None if self.left_out.iter().any(is_it) => OmittedOption::Before,
            None => OmittedOption::Needed,
        }
    }

    /// Returns the losses due to omitted options.
    pub fn losses(&self) -> Vec<LossKind> {
        let mut losses: Vec<_> = self.left_out.iter().filter_map(|choice| choice.loss).collect();
        losses.dedup();
        losses
    }

    /// Returns true if hard links are kept.
    pub fn keeps_hard_links(&self) -> bool {
        self.choices.iter().any(|choice| choice.argument == "--hard-links")
    }
}

/// Returns the number of connections that share a rate limit, if there is one. Their number does not change then.
pub(super) fn limited_lanes(request: &CopyRequest) -> Option<usize> {
    match request.lanes {
        _ if !request.limits.rate.is_some() => None,
        LaneSetting::Count(count) => Some(usize::from(count.max(1))),
        LaneSetting::Auto => Some(LIMITED_LANES),
    }
}

#[cfg(test)]
mod tests {
    use hakobu_core::pace::{RateLimit, RunLimits};

    use super::*;

    const BATCH: RsyncPurpose = RsyncPurpose::Batch { holes: true };

    #[test]
    fn holes_are_looked_for_only_where_there_may_be_some() {
        let options = Options::new(&CopyRequest::default(), true, true);
        let looks = |purpose| options.arguments(purpose).any(|argument| argument == "--sparse");
        for holes in [false, true] {
            assert_eq!(looks(RsyncPurpose::Batch { holes }), holes);
            assert_eq!(looks(RsyncPurpose::Single { holes }), holes);
        }
        // A refusal is thus known from the start.
        assert!(looks(RsyncPurpose::Top { last: false, named: true }) && looks(RsyncPurpose::Finish));
    }

    #[test]
    fn what_can_be_done_without_is_left_out_once() {
        let mut options = Options::new(&CopyRequest::default(), true, true);
        let has = |options: &Options, name: &str| {
            options.arguments(BATCH).any(|argument| argument.split('=').next() == Some(name))
        };
        assert!(has(&options, "--acls") && has(&options, "--info"));
        assert_eq!(options.leave_out("--acls"), OmittedOption::Now(Some(LossKind::Acl)));
        assert_eq!(options.leave_out("--acls"), OmittedOption::Before);
        assert_eq!(options.leave_out("--info"), OmittedOption::Now(None));
        assert_eq!(options.leave_out("--files-from"), OmittedOption::Needed);
        assert_eq!(options.leave_out("--of-another-time"), OmittedOption::Needed);
        assert!(!has(&options, "--acls") && !has(&options, "--info"));
        assert_eq!(options.losses(), [LossKind::Acl]);
    }

    #[test]
    fn capabilities_come_from_elsewhere_only_where_that_is_allowed() {
        let mut request = CopyRequest::default();
        request.preserve.extended = Classes::USER;
        let has = |request: &CopyRequest, outward, filters, argument: &str| {
            let options = Options::new(request, outward, filters);
            options.arguments(BATCH).any(|given| given == argument)
        };
        let rule = "--filter=-x! user.*";
        assert!(has(&request, false, true, rule) && has(&request, false, true, "--xattrs"));
        assert!(!has(&request, true, true, rule) && has(&request, true, true, "--xattrs"));
        // Without such rules, none is copied.
        assert!(!has(&request, false, false, rule) && !has(&request, false, false, "--xattrs"));
        request.allow.set_id = true;
        assert!(!has(&request, false, true, rule) && has(&request, false, true, "--xattrs"));
    }

    #[test]
    fn connections_share_a_limit() {
        let rate = RateLimit::parse("8MiB", 0).unwrap();
        let limits = RunLimits { rate, ..RunLimits::default() };
        let limited = |lanes| CopyRequest { limits: limits.clone(), lanes, ..CopyRequest::default() };
        for (lanes, share) in
            [(LaneSetting::Auto, "--bwlimit=2048"), (LaneSetting::Count(2), "--bwlimit=4096")]
        {
            let options = Options::new(&limited(lanes), true, true);
            assert!(options.arguments(BATCH).any(|argument| argument == share));
            assert!(!options.arguments(RsyncPurpose::List).any(|argument| argument.starts_with("--bwlimit")));
        }
        assert_eq!(limited_lanes(&CopyRequest::default()), None);
    }

    #[test]
    fn nothing_is_written_where_only_a_plan_is_wanted() {
        let request = CopyRequest { dry_run: true, ..CopyRequest::default() };
        let options = Options::new(&request, false, true);
        let single = RsyncPurpose::Single { holes: true };
        for purpose in [BATCH, RsyncPurpose::Finish, RsyncPurpose::Remove, single, RsyncPurpose::List] {
            assert!(options.arguments(purpose).any(|argument| argument == "--dry-run"), "{purpose:?}");
        }
    }
}
