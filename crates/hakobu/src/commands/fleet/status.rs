//! `fleet status`: what of the control plane does not work, and the warning of other commands about it.

use hakobu_core::error::Result;
use hakobu_fleet::api::fleet_status::{FleetStatus, TroubleKind, TroubleView};
use hakobu_fleet::client::FleetClient;

use super::printing::{json_object, time};
use crate::exit_code::FAILED;
use crate::language::Language;
use crate::translation::{lines, phrase};
use crate::{messages, output};

/// The call that tells the state.
const STATUS: &str = "/api/v1/status";

/// Shows the state of the control plane; returns the exit code.
pub(super) fn status(client: &FleetClient, json: bool) -> Result<u8> {
    let status: FleetStatus = client.get(STATUS)?;
    let language = Language::from_environment();
    let shown = match json {
        true => json_object(&status)?,
        false if status.troubles.is_empty() => format!("{}\n", phrase(language, "everything works")),
        false => {
            let troubles: String =
                status.troubles.iter().map(|trouble| told(&words(trouble), trouble)).collect();
            lines(language, &troubles).into_owned()
        }
    };
    let code = output::print(shown.as_bytes());
    Ok(if status.troubles.is_empty() { code } else { FAILED })
}

/// Warns of what does not work. A control plane that cannot tell is of an earlier version.
pub(super) fn warn(client: &FleetClient) {
    let status: Result<FleetStatus> = client.get(STATUS);
    for trouble in status.unwrap_or_default().troubles {
        output::tell_translated(&told(&messages::warning(&words(&trouble)), &trouble));
    }
}

/// Returns the part that does not work, and the cause.
fn words(trouble: &TroubleView) -> String {
    let since = time(Some(trouble.since_ms));
    let part = match trouble.kind {
        TroubleKind::Ledger => format!("the ledger does not work since {since}"),
        TroubleKind::Nats => {
            let group = trouble.group.as_deref().unwrap_or_default();
            format!("NATS does not work for the group {group} since {since}")
        }
    };
    format!("{part}: {}", trouble.problem.message)
}

/// Returns lines with the remedy.
fn told(words: &str, trouble: &TroubleView) -> String {
    let hint = trouble.problem.hint.iter().map(|hint| format!("{}\n", messages::hint(hint)));
    format!("{words}\n{}", hint.collect::<String>())
}
