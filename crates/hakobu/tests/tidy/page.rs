//! The page of the control plane has words for everything that the program names.

use hakobu_core::losses::LossKind;
use hakobu_core::report::bottleneck_names;

use super::read;

#[test]
fn the_page_has_words_for_each_bottleneck() {
    let names: Vec<_> = bottleneck_names().collect();
    assert!(names.contains(&"source read") && names.contains(&"round trips") && names.len() > 20);
    for language in ["en", "ja"] {
        let words = read(format!("ui/src/language/{language}.ts"));
        for name in &names {
            let key = format!("\n  'limit.{}': ", name.replace(' ', "_").replace('\'', ""));
            assert!(words.contains(&key), "{language}.ts has no words for the bottleneck \"{name}\"");
        }
    }
}

#[test]
fn the_page_has_words_for_each_loss() {
    for language in ["en", "ja"] {
        let words = read(format!("ui/src/language/{language}.ts"));
        for kind in LossKind::ALL {
            let key = format!("\n  'loss.{}': ", kind.name());
            assert!(words.contains(&key), "{language}.ts has no words for {kind:?}");
        }
    }
}

#[test]
fn the_page_listens_to_each_event_that_the_control_plane_sends() {
    let mut names = std::collections::BTreeSet::new();
    for file in ["overview", "state"] {
        let code = read(format!("crates/hakobu-fleet/src/api/{file}.rs"));
        for begin in ["tell(events, \"", "FleetEvent { name: \""] {
            let found = code.split(begin).skip(1).filter_map(|rest| rest.split('"').next());
            names.extend(found.map(str::to_owned));
        }
    }
    assert!(names.contains("status") && names.contains("reset") && names.len() >= 6, "{names:?}");
    let listened = read("ui/src/lib/events.ts");
    for name in names {
        assert!(listened.contains(&format!("'{name}'")), "events.ts lacks {name}");
    }
}
