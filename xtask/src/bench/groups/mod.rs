//! The tables of the benches: what is measured, and what is required.

pub mod copy;
pub mod disks;
mod goals;
pub mod rsync;
pub mod stores;
pub mod trees;
pub mod ways;

/// All tables.
#[cfg(test)]
pub const TABLES: [super::rows::Table; 6] =
    [copy::TABLE, disks::TABLE, trees::TABLE, ways::TABLE, rsync::TABLE, stores::TABLE];

#[cfg(test)]
mod tests {
    use super::super::rows::{Group, RunMode, Target};
    use super::super::sources::BenchSource;
    use super::*;
    use std::collections::BTreeSet;

    fn groups() -> impl Iterator<Item = &'static Group> {
        TABLES.iter().flat_map(|table| table.groups)
    }

    #[test]
    fn every_named_method_exists_and_every_method_is_named() {
        for group in groups() {
            let mut named = BTreeSet::new();
            for row in group.rows {
                assert!(group.method(row.method).unwrap().is_ours(), "{}", row.title);
                named.insert(row.method);
                named.extend(row.goals.iter().filter_map(|goal| goal.peer));
            }
            let methods: BTreeSet<_> = group.methods.iter().map(|method| method.name).collect();
            assert_eq!(named, methods, "{}", group.name);
            assert_eq!(methods.len(), group.methods.len(), "{}: a name twice", group.name);
        }
    }

    #[test]
    fn checked_rows_are_always_measured() {
        for group in groups() {
            for goal in group.rows.iter().flat_map(|row| row.goals) {
                let Some((at_least, aim)) = goal.marks else { continue };
                let peer = goal.peer.map(|peer| group.method(peer).unwrap());
                assert!(!group.extra && peer.is_none_or(|peer| !peer.extra), "{}", group.name);
                assert!(if goal.judged.more_is_better() { at_least <= aim } else { aim <= at_least });
            }
        }
    }

    #[test]
    fn keys_are_unique_and_sources_stand_together() {
        for table in TABLES {
            let keys: Vec<_> = table.groups.iter().flat_map(|group| group.rows).map(|row| row.key).collect();
            assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len());
            let (mut gone, mut there): (Vec<BenchSource>, Vec<BenchSource>) = (Vec::new(), Vec::new());
            for group in table.groups {
                let now = group.sources();
                assert!(now.iter().all(|source| !gone.contains(source)), "{}", group.name);
                gone.extend(there.into_iter().filter(|source| !now.contains(source)));
                there = now;
            }
        }
    }

    #[test]
    fn lines_have_places_for_settings_where_these_are_looked_for() {
        for method in groups().flat_map(|group| group.methods) {
            let lines = [Some(method.local), method.remote];
            let has = |place: &str| lines.into_iter().flatten().any(|line| line.contains(place));
            assert_eq!(["{bs}", "{in}", "{out}"].map(has), [method.tuned; 3], "{}", method.name);
        }
    }

    #[test]
    fn the_sources_of_each_group_fit_its_target() {
        for group in groups() {
            let sources = group.sources();
            let disks = sources.iter().filter(|source| matches!(source, BenchSource::Disk { .. })).count();
            let expected = if group.target.is_disk() { sources.len() } else { 0 };
            assert_eq!(disks, expected, "{}", group.name);
            if !matches!(group.target, Target::Discard | Target::Fresh | Target::Disk | Target::Blank) {
                assert_eq!(sources.len(), 1, "{}", group.name);
            }
            assert!(sources.iter().all(|source| source.least() == sources[0].least()), "{}", group.name);
            let killed = group.methods.iter().any(|method| method.mode == RunMode::Killed);
            assert!(
                !killed || disks > 0 || group.store.has_target(),
                "{}: nobody counts what is read",
                group.name
            );
        }
    }
}
