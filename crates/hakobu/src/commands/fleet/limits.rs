//! `fleet limits`.

use clap::{Args, Subcommand};
use hakobu_core::error::Result;
use hakobu_core::units::format_rate;
use hakobu_fleet::api::fleet_view::GroupView;
use hakobu_fleet::api::listing::ListPage;
use hakobu_fleet::api::run_view::RunDetail;
use hakobu_fleet::client::{FleetClient, escaped};
use hakobu_fleet::limits_setting::LimitsSetting;

use super::relationships::read_limits;

/// The text below the help.
pub(crate) const LIMITS_HELP: &str = "\
Limits hold over all brokers, and within seconds. What is not named stays as it is; off and 0 remove a limit. Those of a group \
last until the control plane ends.

Examples:
  hakobu fleet limits run 7 --rate 20M
  hakobu fleet limits group site-a --rate 100M --operations 2000
  hakobu fleet limits run 7 --rate off";

/// The actions on limits.
#[derive(Debug, Subcommand)]
pub enum LimitsVerb {
    /// Show or set the limits of a run
    #[command(after_help = LIMITS_HELP)]
    Run {
        /// Number of the run
        id: u64,
        /// The limits.
        #[command(flatten)]
        limits: FleetLimits,
    },
    /// Show or set the limits of a group
    #[command(after_help = LIMITS_HELP)]
    Group {
        /// Name of the group
        name: String,
        /// The limits.
        #[command(flatten)]
        limits: FleetLimits,
    },
}

/// The limits that were typed.
#[derive(Debug, Args)]
pub struct FleetLimits {
    /// Bytes per second, such as 20M, or off
    #[arg(long, value_name = "RATE")]
    pub rate: Option<String>,
    /// Operations per second, or 0 for no limit
    #[arg(long, value_name = "N")]
    pub operations: Option<u32>,
    /// Slow down while source reads are slower than MS; 0 for no limit
    #[arg(long, value_name = "MS")]
    pub source_p99: Option<f64>,
    /// Brokers that work at a time; 0 for no limit
    #[arg(long, value_name = "N")]
    pub brokers: Option<u32>,
}

impl FleetLimits {
    fn is_empty(&self) -> bool {
        self.rate.is_none()
            && self.operations.is_none()
            && self.source_p99.is_none()
            && self.brokers.is_none()
    }

    fn onto(&self, before: Option<LimitsSetting>) -> Result<LimitsSetting> {
        let limits =
            read_limits((self.rate.as_deref(), self.operations), (self.source_p99, self.brokers), before)?;
        Ok(limits.unwrap_or_default())
    }
}

/// Carries out an action; returns what is to be printed.
pub(super) fn limits(client: &FleetClient, verb: &LimitsVerb) -> Result<String> {
    let (path, before, typed) = match verb {
        LimitsVerb::Run { id, limits } => {
            let detail: RunDetail = client.get(&format!("/api/v1/runs/{id}"))?;
            (format!("/api/v1/runs/{id}/limits"), detail.limits, limits)
        }
        LimitsVerb::Group { name, limits } => {
            let groups: ListPage<GroupView> = client.get("/api/v1/groups")?;
            let before = groups.items.into_iter().find(|group| group.name == *name);
            let path = format!("/api/v1/groups/{}/limits", escaped(name.as_bytes()));
            (path, before.and_then(|group| group.limits), limits)
        }
    };
    if typed.is_empty() {
        let words = before.as_ref().map(words).filter(|words| !words.is_empty());
        return Ok(format!("{}\n", words.unwrap_or_else(|| "no limits".to_owned())));
    }
    client.order("PUT", &path, Some(&typed.onto(before)?)).map(|()| String::new())
}

/// Describes limits; empty if there are none.
pub(super) fn words(limits: &LimitsSetting) -> String {
    let mut words = Vec::new();
    words.extend(limits.paused.then(|| "paused".to_owned()));
    words.extend(limits.bytes_per_second.map(|rate| format_rate(rate as f64)));
    words.extend(limits.operations_per_second.map(|count| format!("{count} operations/s")));
    words.extend(limits.source_p99_ms.map(|ms| format!("source reads up to {ms} ms")));
    words.extend(limits.brokers.map(|count| format!("{count} brokers")));
    words.join(", ")
}
