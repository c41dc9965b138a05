//! Filters by age, such as `--newer-than 7d`. In a fleet they are counted from the start of the run: so its brokers agree,
//! whatever their clocks say, and however long the run takes.

use hakobu_core::units::parse_duration;

use crate::ids::Moment;
use crate::run_request::FleetRequest;

/// The options whose value may be an age.
const OPTIONS: [&str; 2] = ["--newer-than", "--older-than"];

/// Returns a request with moments in place of ages.
pub(crate) fn with_moments(request: FleetRequest, started: Moment) -> FleetRequest {
    let mut is_value = false;
    let arguments = request.arguments.into_iter().map(|word| {
        if std::mem::take(&mut is_value) {
            return moment(&word, started).unwrap_or(word);
        }
        is_value = OPTIONS.contains(&&*word);
        let with_value = word.split_once('=').filter(|(option, _)| OPTIONS.contains(option));
        let changed =
            with_value.and_then(|(option, age)| Some(format!("{option}={}", moment(age, started)?)));
        changed.unwrap_or(word)
    });
    FleetRequest { arguments: arguments.collect(), ..request }
}

/// Returns the moment that is so long before the start; `None` if the text is no age.
fn moment(age: &str, started: Moment) -> Option<String> {
    let age = parse_duration(age).ok()?;
    let started = jiff::Timestamp::from_millisecond(i64::try_from(started.get()).ok()?).ok()?;
    Some(started.checked_sub(age).ok()?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_counted_from_the_start_and_all_else_stays() {
        let changed = |words: &[&str]| {
            let arguments = words.iter().map(|word| (*word).to_owned()).collect();
            let request = FleetRequest { arguments, verify: true, ..FleetRequest::default() };
            let changed = with_moments(request, Moment::new(1_800_000_000_000).unwrap());
            assert!(changed.verify);
            changed.arguments
        };
        let day_before = "2027-01-14T08:00:00Z";
        assert_eq!(changed(&["--newer-than", "1d", "-x"]), ["--newer-than", day_before, "-x"]);
        assert_eq!(changed(&["--older-than=24h"]), [format!("--older-than={day_before}")]);
        let others = [
            "--newer-than",
            "2026-11-01",
            "--older-than=2026-11-01T00:00:00Z",
            "--exclude",
            "1d",
            "--max-size=7d",
        ];
        assert_eq!(changed(&others), others);
        assert_eq!(changed(&["--newer-than"]), ["--newer-than"]);
        assert_eq!(changed(&["--newer-than", "99999999999999d"]), ["--newer-than", "99999999999999d"]);
    }
}
