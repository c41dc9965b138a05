//! The limits that runs and groups have in the ledger.

use std::collections::BTreeMap;

use hakobu_core::error::Result;

use super::limited_endpoint::LimitedEndpoint;
use crate::endpoint_location::EndpointLocation;
use crate::ledger::Ledger;
use crate::limits_setting::LimitsSetting;
use crate::names::GroupName;
use crate::run::RunRow;

/// Returns the limits of a run: its own, or those that its relationship has.
pub(super) fn saved_limits(ledger: &mut dyn Ledger, row: &RunRow) -> Result<Option<LimitsSetting>> {
    if let Some(json) = &row.limits {
        return Ok(LimitsSetting::parse(json).ok());
    }
    let Some(id) = row.relationship else { return Ok(None) };
    let record = ledger.relationship(id)?;
    // Limits of a later version were refused when they were set here, so they do not hold here.
    Ok(record.and_then(|record| record.relationship.limits).and_then(|json| LimitsSetting::parse(&json).ok()))
}

/// Returns the limits of all groups. Those that this program cannot read, as a later version wrote them, do not hold.
pub(super) fn group_limits(ledger: &mut dyn Ledger) -> Result<BTreeMap<GroupName, LimitsSetting>> {
    let saved = ledger.group_limits()?.into_iter();
    Ok(saved.filter_map(|(group, json)| Some((group, LimitsSetting::parse(&json).ok()?))).collect())
}

/// Returns the limits of all endpoints by their locations. Those that this program cannot read do not hold, as above.
pub(super) fn endpoint_limits(ledger: &mut dyn Ledger) -> Result<BTreeMap<Vec<u8>, LimitedEndpoint>> {
    let saved = ledger.endpoint_limits()?.into_iter();
    let known = saved.filter_map(|(location, json)| {
        let (endpoint, limits) = (EndpointLocation::new(&location).ok()?, LimitsSetting::parse(&json).ok()?);
        Some((location, LimitedEndpoint { endpoint, limits }))
    });
    Ok(known.collect())
}
