//! Reads the transport from hakobu's own report. A row that used another transport than the agent does not count as a
//! row of the agent.

/// The beginning of the line with the transport. The report has one field per line.
const FIELD: &str = "\"transport\": \"";

/// Returns the transport from the lines of a report, or `None` if it is missing.
pub(super) fn transport<'a>(lines: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let value = lines.into_iter().find_map(|line| line.trim().strip_prefix(FIELD))?;
    let (way, _) = value.split_once('"')?;
    let is_sound = |letter: u8| letter.is_ascii_lowercase() || b", ".contains(&letter);
    (!way.is_empty() && way.bytes().all(is_sound)).then(|| way.to_owned())
}

/// Returns the script that prints that line of a report at a plain path.
pub(super) fn question(path: &str) -> String {
    format!("grep '^ *{FIELD}' {path} | head -n 1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_is_read_and_what_is_none_is_not() {
        let report = "{\n  \"schema\": \"hakobu.report/1\",\n  \"transport\": \"agent, relayed\",\n  \"cipher\": null\n}";
        assert_eq!(transport(report.lines()).as_deref(), Some("agent, relayed"));
        for odd in [
            "",
            "\"transport\": null,",
            "\"transport\": \"\",",
            "\"transport\": \"\u{1b}[2J\",",
            "\"transport\": \"a",
        ] {
            assert_eq!(transport([odd]), None, "{odd}");
        }
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("report");
        std::fs::write(&path, report).unwrap();
        let script = question(path.to_str().unwrap());
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        let answer = String::from_utf8(output.stdout).unwrap();
        assert_eq!(transport(answer.lines()).as_deref(), Some("agent, relayed"));
    }
}
