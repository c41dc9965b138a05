//! The number of lanes.

use hakobu_core::error::Error;
use hakobu_core::job::LANES_MAX;
use hakobu_core::request::Lanes;

use super::findings::usage;

pub(crate) fn lanes(text: &str) -> Result<Lanes, Error> {
    match text.parse() {
        _ if text == "auto" => Ok(Lanes::Auto),
        Ok(count @ 1..=LANES_MAX) => Ok(Lanes::Count(count)),
        _ => Err(usage("--lanes", format!("must be auto or a number from 1 to {LANES_MAX}"))),
    }
}
