//! A prediction: what each stage of a transfer gets, and how long all of it takes.

/// No transfer lasts longer than is worth telling: a hundred years.
pub(super) const SECONDS_MAX: f64 = 3.2e9;

/// What limits a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reading the source.
    SourceRead,
    /// The source's processors.
    SourceProcessor,
    /// What the copy is held to.
    Limit,
    /// The line.
    Network,
    /// The target's processors.
    TargetProcessor,
    /// The processors that both ends have.
    Processor,
    /// Writing the target.
    TargetWrite,
}

impl Stage {
    /// Its name, as reports have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::SourceRead => "source read",
            Self::SourceProcessor => "source processor",
            Self::Limit => "rate limit",
            Self::Network => "network",
            Self::TargetProcessor => "target processor",
            Self::Processor => "processors of both ends",
            Self::TargetWrite => "target write",
        }
    }
}

/// What one stage gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageRate {
    /// Which.
    pub stage: Stage,
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// Whether it may be more: something else held it while it was measured.
    pub at_least: bool,
    /// Whether that were processors, which are a stage of their own: then it limits nothing.
    pub is_held: bool,
}

/// How long something takes, and what limits it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// From the start to the end, with the login.
    pub seconds: f64,
    /// What most of it is.
    pub limited_by: &'static str,
}

pub(super) fn bounded(seconds: f64, limited_by: &'static str) -> Option<Span> {
    (seconds.is_finite() && seconds >= 0.0).then(|| Span { seconds: seconds.min(SECONDS_MAX), limited_by })
}

/// What a tree takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TreePrediction {
    /// The first copy.
    pub first: Span,
    /// A run that finds nothing to do.
    pub unchanged: Span,
    /// The tree was not listed to its end, so both take longer.
    pub at_least: bool,
}

/// What a transfer will get.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prediction {
    /// What each stage gets, in the order of the data.
    pub stages: Vec<StageRate>,
    /// What the slowest gets, and which that is.
    pub slowest: Option<StageRate>,
    /// How long so many bytes in one file take: those of the source, or 2 GiB.
    pub file: Option<(u64, Span)>,
    /// The same for the source's tree.
    pub tree: Option<TreePrediction>,
    /// Stages that are not known.
    pub unknown: Vec<Stage>,
}

pub(super) fn slower(one: &&StageRate, other: &&StageRate) -> std::cmp::Ordering {
    one.bytes_per_second.total_cmp(&other.bytes_per_second)
}

/// The stages that may limit something.
pub(super) fn certain(made: &Prediction) -> impl Iterator<Item = &StageRate> {
    made.stages.iter().filter(|stage| !stage.is_held || made.slowest == Some(**stage))
}
