//! Descriptions of the reason why a copy would fail.

use hakobu_core::path::lossy;
use hakobu_core::report::ReportError;
use hakobu_transfer::probe::CopyObstacle;
use serde_json::{Value, json as object};

use crate::words::{Machines, advice};

/// Returns one line, followed by a hint unless the line contains the remedy.
pub fn lines(obstacle: &CopyObstacle, machines: &Machines) -> Vec<String> {
    let error = &obstacle.error;
    let would = if obstacle.certain { "would" } else { "may" };
    let line = format!("a copy {would} fail: {}: {}", lossy(&error.at), lossy(error.reason().as_bytes()));
    let step = advice(&ReportError::from(error), machines).map(|step| format!("hint: {step}"));
    [Some(line), step].into_iter().flatten().collect()
}

/// Returns the obstacle as JSON: the error in the form of reports, and if it is certain.
pub fn object(obstacle: &CopyObstacle) -> Value {
    let mut value = object!(ReportError::from(&obstacle.error));
    value["certain"] = obstacle.certain.into();
    value
}
