//! The prediction: the rate of each stage of a transfer, and the total duration.

/// The maximum duration in seconds: a hundred years.
pub(super) const SECONDS_MAX: f64 = 3.2e9;

/// The stage that limits a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferStage {
    /// Reading the source.
    SourceRead,
    /// The source's processors.
    SourceProcessor,
    /// The rate limit.
    Limit,
    /// The network link.
    Network,
    /// The target's processors.
    TargetProcessor,
    /// The processors that both ends share.
    Processor,
    /// Writing the target.
    TargetWrite,
}

impl TransferStage {
    /// Returns the name that reports use.
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

/// The rate of one stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageRate {
    /// The stage.
    pub stage: TransferStage,
    /// The rate in bytes per second.
    pub bytes_per_second: f64,
    /// True if the stage may be faster, because something else limited the measurement.
    pub at_least: bool,
    /// True if the processors limited the measurement. They are a stage of their own, so this stage is not the
    /// bottleneck.
    pub is_held: bool,
}

/// A duration and its main cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictedTime {
    /// The seconds from start to end, including the login.
    pub seconds: f64,
    /// The part that takes the most time.
    pub limited_by: &'static str,
}

pub(super) fn bounded(seconds: f64, limited_by: &'static str) -> Option<PredictedTime> {
    (seconds.is_finite() && seconds >= 0.0)
        .then(|| PredictedTime { seconds: seconds.min(SECONDS_MAX), limited_by })
}

/// The predicted duration for a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TreePrediction {
    /// The first copy.
    pub first: PredictedTime,
    /// A run without changes.
    pub unchanged: PredictedTime,
    /// True if the tree was not listed completely, so both durations are lower limits.
    pub at_least: bool,
}

/// The prediction of a transfer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prediction {
    /// The rate of each stage, in the order of the data.
    pub stages: Vec<StageRate>,
    /// The slowest stage.
    pub slowest: Option<StageRate>,
    /// The size of a single file in bytes and its duration: the size of the source, or 2 GiB.
    pub file: Option<(u64, PredictedTime)>,
    /// The duration for the source's tree.
    pub tree: Option<TreePrediction>,
    /// The stages whose rate is unknown.
    pub unknown: Vec<TransferStage>,
}

pub(super) fn slower(one: &&StageRate, other: &&StageRate) -> std::cmp::Ordering {
    one.bytes_per_second.total_cmp(&other.bytes_per_second)
}

/// Returns the stages that may be the bottleneck.
pub(super) fn certain(made: &Prediction) -> impl Iterator<Item = &StageRate> {
    made.stages.iter().filter(|stage| !stage.is_held || made.slowest == Some(**stage))
}
