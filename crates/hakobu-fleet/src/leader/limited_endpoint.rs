//! Endpoints with limits, and the runs that touch them.

use std::collections::BTreeMap;

use hakobu_core::error::Result;

use crate::comparable_location::ComparableLocation;
use crate::endpoint_location::EndpointLocation;
use crate::limits_setting::LimitsSetting;
use crate::run_request::{FleetRequest, LocationText};

/// An endpoint with the limits that all runs share which touch it.
#[derive(Clone, Debug)]
pub(super) struct LimitedEndpoint {
    pub endpoint: EndpointLocation,
    pub limits: LimitsSetting,
}

impl LimitedEndpoint {
    /// Reads limits that are set for the endpoint at a location; none if they are removed.
    ///
    /// # Errors
    /// `Usage` for a location or limits that are none.
    pub(super) fn parse(location: &[u8], limits: Option<&str>) -> Result<Option<Self>> {
        let Some(json) = limits else { return Ok(None) };
        Ok(Some(Self { endpoint: EndpointLocation::new(location)?, limits: LimitsSetting::parse(json)? }))
    }
}

/// Returns the locations of the endpoints that a run touches, each with true if a source is there.
pub(super) fn endpoints_of(
    request: &FleetRequest,
    limited: &BTreeMap<Vec<u8>, LimitedEndpoint>,
) -> BTreeMap<Vec<u8>, bool> {
    if limited.is_empty() {
        return BTreeMap::new();
    }
    let location = |text: &LocationText| ComparableLocation::new(&text.0);
    let sources: Vec<_> = request.sources.iter().filter_map(location).collect();
    let target = location(&request.target);
    let touched = limited.iter().filter_map(|(key, LimitedEndpoint { endpoint, .. })| {
        let is_read = sources.iter().any(|source| endpoint.covers(source));
        let is_written = target.as_ref().is_some_and(|target| endpoint.covers(target));
        (is_read || is_written).then(|| (key.clone(), is_read))
    });
    touched.collect()
}
