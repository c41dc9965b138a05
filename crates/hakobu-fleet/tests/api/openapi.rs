//! Test that docs/api/openapi.json describes the interface as it is. To accept a change, run it with HAKOBU_BLESS=1.

use std::path::Path;

use hakobu_fleet::api;

#[test]
fn the_document_is_the_one_that_is_checked_in() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api/openapi.json");
    let document = format!("{}\n", api::document());
    if std::env::var_os("HAKOBU_BLESS").is_some() {
        std::fs::write(&path, &document).expect("the document can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == document,
        "the interface has changed: HAKOBU_BLESS=1 cargo test -p hakobu-fleet --test api openapi"
    );
}
