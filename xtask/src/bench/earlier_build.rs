//! Compares hakobu with an earlier build of itself, instead of with other tools, to see whether a change has cost
//! speed.

use std::path::Path;

use hakobu_core::shell::quote;

use super::GroupSelection;
use super::goal_quantity::GoalQuantity;
use super::rows::{BenchMethod, Goal, Group, RunMode, TableRow};

/// The required and the aimed-for speed of each row, as a multiple of the earlier build's speed.
const AT_LEAST: f64 = 0.95;
const AIM: f64 = 0.97;

/// Returns groups that compare each of our methods with the same method run by `program`, an earlier build. Methods
/// that are killed half way and methods that are only for information are left out.
pub(super) fn beside(chosen: &[GroupSelection], program: &Path) -> Vec<GroupSelection> {
    let compared = chosen.iter().filter(|chosen| !chosen.group.extra);
    compared.map(|chosen| beside_group(chosen, program)).filter(|chosen| !chosen.methods.is_empty()).collect()
}

fn beside_group(chosen: &GroupSelection, program: &Path) -> GroupSelection {
    let (mut methods, mut rows): (Vec<BenchMethod>, Vec<TableRow>) = (Vec::new(), Vec::new());
    for (row, _) in &chosen.rows {
        let Some(method) = chosen.methods.iter().find(|method| method.name == row.method) else { continue };
        let is_there = methods.iter().any(|other| other.name == method.name);
        if is_there || method.extra || method.mode != RunMode::Whole {
            continue;
        }
        let Some(local) = earlier(method.local, program) else { continue };
        let name: &'static str = leak(format!("{} before", method.name));
        let goals: &'static [Goal] = Vec::leak(vec![Goal {
            judged: GoalQuantity::TimesFaster,
            peer: Some(name),
            marks: Some((AT_LEAST, AIM)),
        }]);
        methods.extend([**method, BenchMethod { name, local: leak(local), ..**method }]);
        rows.push(TableRow { goals, ..**row });
    }
    let (methods, rows): (&'static [BenchMethod], &'static [TableRow]) =
        (Vec::leak(methods), Vec::leak(rows));
    GroupSelection {
        group: Box::leak(Box::new(Group { methods, rows, ..*chosen.group })),
        methods: methods.iter().collect(),
        rows: rows.iter().map(|row| (row, row.goals.to_vec())).collect(),
    }
}

/// Returns `line` rewritten to use the earlier build on both hosts, or `None` if it is not a hakobu command.
fn earlier(line: &str, program: &Path) -> Option<String> {
    let (verb, rest) = line.strip_prefix("hakobu ")?.split_once(' ')?;
    let program = quote(program);
    let agent = if rest.contains("$HOST") { format!("--agent {program} ") } else { String::new() };
    Some(format!("{program} {verb} {agent}{rest}"))
}

/// Turns a generated text into a constant, as the tables need. It is leaked once per process.
fn leak(text: String) -> &'static str {
    text.leak()
}

#[cfg(test)]
mod tests {
    use super::super::choose;
    use super::super::groups::{copy, disks, trees};
    use super::*;

    #[test]
    fn each_method_of_ours_is_beside_itself() {
        for table in [&copy::TABLE, &disks::TABLE, &trees::TABLE] {
            let chosen = beside(&choose(table, None, false), Path::new("/old"));
            assert!(chosen.len() > 3, "{}", table.key);
            for GroupSelection { group, methods, rows } in chosen {
                assert_eq!(methods.len(), 2 * rows.len(), "{}", group.name);
                for (row, goals) in rows {
                    let peer = group.method(goals[0].peer.unwrap()).unwrap();
                    assert!(group.method(row.method).unwrap().is_ours() && peer.local.starts_with("/old "));
                }
            }
        }
    }

    #[test]
    fn both_hosts_use_the_earlier_build() {
        let line = |line| earlier(line, Path::new("/old"));
        assert_eq!(line("hakobu sync $SOURCE/ $TARGET/").unwrap(), "/old sync $SOURCE/ $TARGET/");
        assert_eq!(line("hakobu copy $HOST:$SOURCE x").unwrap(), "/old copy --agent /old $HOST:$SOURCE x");
        assert_eq!(line("fio --name x"), None);
    }
}
