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
