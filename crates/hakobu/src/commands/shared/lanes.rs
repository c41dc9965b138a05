//! The option `--lanes`.

use hakobu_core::error::Error;
use hakobu_core::job::LANES_MAX;
use hakobu_core::request::LaneSetting;

use super::findings::usage;

pub(crate) fn lanes(text: &str) -> Result<LaneSetting, Error> {
    match text.parse() {
        _ if text == "auto" => Ok(LaneSetting::Auto),
        Ok(count @ 1..=LANES_MAX) => Ok(LaneSetting::Count(count)),
        _ => Err(usage("--lanes", format!("must be auto or a number from 1 to {LANES_MAX}"))),
    }
}
