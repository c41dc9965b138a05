//! The choice of compression for content in transit: whether, at which level, and why.

use crate::error::{Error, ErrorKind, Result};

/// The lowest zstd level that can be requested, which is the fastest.
pub const LEVEL_MIN: i8 = -7;
/// The highest zstd level that can be requested. Higher ones take hundreds of megabytes of memory and gain nothing on
/// pieces.
pub const LEVEL_MAX: i8 = 19;
/// The maximum number of choices reported for all lanes together.
const TOLD_MAX: u32 = 24;
/// The minimum time before a choice is reported again.
const TELL_AGAIN_NS: u64 = 10_000_000_000;

/// The requested compression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Compress where the network limits. Each lane decides for itself, and picks the level that pays off.
    #[default]
    Auto,
    /// Never compress.
    None,
    /// Always compress, at the level that pays off.
    Adapted,
    /// Always compress, at this zstd level.
    Level(i8),
}

impl Compression {
    /// Returns true if content must be compressed whatever limits, so that a transport without compression is an error.
    pub fn is_asked_for(self) -> bool {
        matches!(self, Self::Adapted | Self::Level(_))
    }

    /// Parses `auto`, `none`, `zstd` or `zstd:LEVEL`.
    ///
    /// # Errors
    /// `Usage`, listing the valid values.
    pub fn parse(text: &str) -> Result<Self> {
        let level = |text: &str| text.parse().ok().filter(|level| (LEVEL_MIN..=LEVEL_MAX).contains(level));
        let found = match text.split_once(':') {
            Some(("zstd", typed)) => level(typed).map(Self::Level),
            Some(_) => None,
            None => match text {
                "auto" => Some(Self::Auto),
                "none" => Some(Self::None),
                "zstd" => Some(Self::Adapted),
                _ => None,
            },
        };
        found.ok_or_else(|| {
            let words =
                format!("it is auto, none, zstd, or zstd:LEVEL with a level from {LEVEL_MIN} to {LEVEL_MAX}");
            Error::new(ErrorKind::Usage, "option", words)
        })
    }
}

/// Compression statistics of a lane since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CompressionStats {
    /// Nanoseconds spent compressing, samples included.
    pub time_ns: u64,
    /// Bytes of content that were sent compressed.
    pub content_bytes: u64,
    /// The size of that content after compression, in bytes.
    pub sent_bytes: u64,
    /// The levels that were used.
    pub levels: Levels,
    /// The lane's latest choice, if it made one.
    pub choice: Option<LevelChoice>,
}

/// A set of zstd levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels(u32);

impl Levels {
    /// Adds a level from [`LEVEL_MIN`] to [`LEVEL_MAX`].
    pub fn insert(&mut self, level: i8) {
        self.0 |= 1 << (level.clamp(LEVEL_MIN, LEVEL_MAX) - LEVEL_MIN);
    }

    /// Adds the levels of another set.
    pub fn merge(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Returns the levels in ascending order.
    pub fn iter(self) -> impl Iterator<Item = i8> {
        (LEVEL_MIN..=LEVEL_MAX).filter(move |level| self.0 >> (level - LEVEL_MIN) & 1 == 1)
    }
}

/// A choice of one lane, with the figures that led to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelChoice {
    /// The number of choices that the lane has made, this one included.
    pub number: u32,
    /// The level from now on; `None` means no compression.
    pub level: Option<i8>,
    /// The reason.
    pub reason: Reason,
    /// The share of the lane's time in which sending waited for the network, 0 to 1.
    pub blocked: f32,
    /// The recent ratio of compressed to original size, 0 to 1; `None` if nothing was compressed.
    pub shrank_to: Option<f32>,
}

/// The reason why a lane changes the level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing is known about the network path except that its latency is high.
    LongWay,
    /// The network accepts less than the lane could send.
    WayLimits,
    /// The lane's own processor has no time left for that level.
    ProcessorLimits,
    /// The bottleneck is at the remote host.
    FarEndLimits,
    /// The lane was slower without compression.
    SlowerWithout,
}

impl LevelChoice {
    /// Returns the choice and its reason as printed by `--why`.
    pub fn words(&self) -> (String, String) {
        let choice = match self.level {
            Some(level) => format!("compression: zstd {level}"),
            None => "compression: none".to_owned(),
        };
        let why = match self.reason {
            Reason::LongWay => {
                let words = "at first, because connections take time to reach the rate of a link with a long round \
                    trip";
                return (choice, words.to_owned());
            }
            Reason::WayLimits => "the network is the bottleneck",
            Reason::ProcessorLimits => "the processor is the bottleneck",
            Reason::FarEndLimits => "the other end is the bottleneck",
            Reason::SlowerWithout => "a lane was slower without",
        };
        let mut reason = format!("{why}; sending waited for {:.0} % of a lane's time", self.blocked * 100.0);
        if let Some(share) = self.shrank_to {
            reason.push_str(&format!(", content shrank to {:.0} %", share * 100.0));
        }
        (choice, reason)
    }
}

/// Selects the choices to report. Many lanes make much the same choices, so a choice is repeated only after some time,
/// and the total number is limited.
#[derive(Debug, Default)]
pub struct ReportedChoices {
    choices: Vec<(Option<i8>, Reason)>,
    count: u32,
    last: Option<i8>,
    last_ns: u64,
}

impl ReportedChoices {
    /// Returns true if this choice is to be reported. `now_ns` is the time since the run began.
    pub fn tells(&mut self, choice: &LevelChoice, now_ns: u64) -> bool {
        let this = (choice.level, choice.reason);
        let is_new = !self.choices.contains(&this);
        let is_long_ago = self.last != choice.level && now_ns.saturating_sub(self.last_ns) >= TELL_AGAIN_NS;
        if self.count >= TOLD_MAX || !is_new && !is_long_ago {
            return false;
        }
        if is_new {
            self.choices.push(this);
        }
        self.count += 1;
        (self.last, self.last_ns) = (choice.level, now_ns);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_typed() {
        for (typed, meant) in [
            ("auto", Compression::Auto),
            ("none", Compression::None),
            ("zstd", Compression::Adapted),
            ("zstd:3", Compression::Level(3)),
            ("zstd:-7", Compression::Level(-7)),
            ("zstd:19", Compression::Level(19)),
        ] {
            assert_eq!(Compression::parse(typed), Ok(meant), "{typed}");
        }
        for typed in
            ["", "zstd:", "zstd:20", "zstd:-8", "zstd:x", "zstd:300", "gzip", "auto:1", "none:1", "3"]
        {
            let error = Compression::parse(typed).unwrap_err();
            assert!(error.detail.contains("-7 to 19"), "{typed}: {error}");
        }
    }

    #[test]
    fn levels_are_a_set() {
        let (mut some, mut more) = (Levels::default(), Levels::default());
        assert_eq!(some.iter().count(), 0);
        [3, -5, 3].into_iter().for_each(|level| some.insert(level));
        [19, -7].into_iter().for_each(|level| more.insert(level));
        some.merge(more);
        assert_eq!(some.iter().collect::<Vec<_>>(), [-7, -5, 3, 19]);
    }

    #[test]
    fn lanes_that_do_the_same_are_told_once_and_never_too_often() {
        let choice = |level| LevelChoice {
            number: 1,
            level,
            reason: Reason::WayLimits,
            blocked: 0.5,
            shrank_to: Some(0.48),
        };
        let mut told = ReportedChoices::default();
        let tells =
            [Some(1), Some(1), Some(3), Some(1), None, Some(3)].map(|level| told.tells(&choice(level), 7));
        assert_eq!(tells, [true, false, true, false, true, false]);
        assert!(told.tells(&choice(Some(3)), TELL_AGAIN_NS + 7));
        let later = |index: u64| (index + 2) * TELL_AGAIN_NS * 2;
        let more = (0..1000).filter(|index| told.tells(&choice(Some((index % 5) as i8)), later(*index)));
        assert_eq!(more.count() as u32, TOLD_MAX - 4);
        let first = LevelChoice { reason: Reason::LongWay, ..choice(Some(1)) };
        assert!(first.words().1.starts_with("at first, because connections"));
        let (words, reason) = choice(Some(3)).words();
        assert_eq!(words, "compression: zstd 3");
        assert_eq!(
            reason,
            "the network is the bottleneck; sending waited for 50 % of a lane's time, content shrank to 48 %"
        );
    }
}
