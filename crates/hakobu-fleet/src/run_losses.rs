//! Properties that the units of a run could not keep at the target, summed up by kind.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hakobu_core::error::Result;
use hakobu_core::losses::{Loss, LossKind};
use hakobu_core::path::PATH_BYTES_MAX;
use hakobu_core::report::ReportLoss;
use serde::{Deserialize, Serialize};

use crate::limits::check_at_most;

/// Properties that the units of a run could not keep, with one row for each kind at most. Their JSON is that of reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<ReportLoss>", into = "Vec<ReportLoss>")]
pub struct RunLosses(Vec<Loss>);

impl RunLosses {
    /// Takes the losses of a unit. Examples are cut to what is kept.
    pub fn new(losses: &[Loss]) -> Self {
        let mut all = Self::default();
        for loss in losses {
            let example = loss.example[..loss.example.len().min(PATH_BYTES_MAX)].to_vec();
            all.add_one(&Loss { example, ..loss.clone() });
        }
        all
    }

    /// Adds the losses of a unit. The first example of each kind stays.
    pub fn add(&mut self, unit: &Self) {
        unit.0.iter().for_each(|loss| self.add_one(loss));
    }

    fn add_one(&mut self, loss: &Loss) {
        match self.0.binary_search_by_key(&loss.what, |known| known.what) {
            Ok(at) => self.0[at].count = self.0[at].count.saturating_add(loss.count),
            Err(at) => self.0.insert(at, loss.clone()),
        }
    }

    /// Returns them in the order of their kinds.
    pub fn iter(&self) -> impl Iterator<Item = &Loss> {
        self.0.iter()
    }

    /// Returns them as reports have them.
    pub fn reported(&self) -> Vec<ReportLoss> {
        self.0.iter().map(ReportLoss::from).collect()
    }

    /// Checks the lengths.
    ///
    /// # Errors
    /// `Usage`
    pub fn check(&self) -> Result<()> {
        self.0.iter().try_for_each(|loss| {
            check_at_most("the bytes of the example of a loss", loss.example.len(), PATH_BYTES_MAX)
        })
    }
}

impl From<RunLosses> for Vec<ReportLoss> {
    fn from(losses: RunLosses) -> Self {
        losses.reported()
    }
}

impl TryFrom<Vec<ReportLoss>> for RunLosses {
    type Error = String;

    fn try_from(reported: Vec<ReportLoss>) -> std::result::Result<Self, String> {
        let mut all = Self::default();
        for ReportLoss { what, count, side, example, example_base64 } in reported {
            let kind = LossKind::from_name(&what).ok_or_else(|| format!("no loss is called {what:?}"))?;
            let example = match example_base64 {
                Some(bytes) => BASE64_STANDARD.decode(bytes).map_err(|error| error.to_string())?,
                None => example.into_bytes(),
            };
            all.add_one(&Loss { what: kind, count, at_target: side == "target", example });
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(what: LossKind, count: u64, example: &[u8]) -> Loss {
        Loss { what, count, at_target: what.is_of_target(), example: example.to_vec() }
    }

    #[test]
    fn sums_have_one_row_of_each_kind() {
        let mut sum =
            RunLosses::new(&[loss(LossKind::Times, 2, b"t"), loss(LossKind::Acl, u64::MAX - 1, b"a\xff")]);
        for round in 0..1000 {
            sum.add(&RunLosses::new(&[
                loss(LossKind::Acl, 1, b"later"),
                loss(LossKind::Owner, 1, format!("{round}").as_bytes()),
            ]));
        }
        let expected = [
            loss(LossKind::Acl, u64::MAX, b"a\xff"),
            loss(LossKind::Owner, 1000, b"0"),
            loss(LossKind::Times, 2, b"t"),
        ];
        assert_eq!(sum.iter().cloned().collect::<Vec<_>>(), expected);
        let json = serde_json::to_string(&sum).unwrap();
        assert_eq!(serde_json::from_str::<RunLosses>(&json).unwrap(), sum, "{json}");
    }

    #[test]
    fn long_examples_are_cut_and_others_refused() {
        let long = loss(LossKind::Xattr, 1, &[b'x'; PATH_BYTES_MAX + 1]);
        RunLosses::new(std::slice::from_ref(&long)).check().unwrap();
        assert!(RunLosses(vec![long]).check().is_err());
        let odd = r#"[{"what":"colour","count":1,"side":"source","example":"a"}]"#;
        assert!(serde_json::from_str::<RunLosses>(odd).is_err());
    }
}
