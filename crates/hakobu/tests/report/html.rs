//! A checker of the HTML that the program writes. It is stricter than any browser and knows every tag.

/// The allowed tags. None of them loads or runs anything.
const TAGS: [&str; 29] = [
    "html",
    "head",
    "title",
    "style",
    "body",
    "h1",
    "h2",
    "div",
    "p",
    "strong",
    "code",
    "q",
    "pre",
    "section",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "ul",
    "li",
    "figure",
    "figcaption",
    "svg",
    "path",
    "rect",
    "line",
    "text",
];
const TAGS_WITHOUT_END: [&str; 1] = ["meta"];
const ATTRIBUTES: [&str; 20] = [
    "lang",
    "charset",
    "http-equiv",
    "content",
    "name",
    "class",
    "viewBox",
    "role",
    "aria-hidden",
    "width",
    "height",
    "d",
    "x",
    "y",
    "x1",
    "x2",
    "y1",
    "y2",
    "text-anchor",
    "preserveAspectRatio",
];

/// Fails unless all tags are known and balanced, attributes are known and quoted, and text is plain. Returns the text
/// with its entities resolved.
#[track_caller]
pub fn text_of(html: &str) -> String {
    let mut rest = html.strip_prefix("<!DOCTYPE html>").expect("it is HTML");
    let (mut open, mut text) = (Vec::new(), String::new());
    while let Some(at) = rest.find(['<', '>']) {
        let (before, tag) = rest.split_at(at);
        if open.last() != Some(&"style") {
            text.push_str(&plain(before));
        }
        assert!(tag.starts_with('<'), "a bare > at {:.60}", tag);
        let end = tag.find('>').expect("the tag ends");
        let inside = &tag[1..end];
        rest = &tag[end + 1..];
        if let Some(name) = inside.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "before {rest:.60}");
            text.push('\n');
        } else {
            let name = inside.split([' ', '/']).next().unwrap_or_default();
            let has_end = TAGS.contains(&name);
            assert!(has_end || TAGS_WITHOUT_END.contains(&name), "unknown tag {inside}");
            check_attributes(inside[name.len()..].trim_end_matches('/'));
            if has_end && !inside.ends_with('/') {
                open.push(name);
            }
        }
    }
    assert_eq!(open, Vec::<&str>::new(), "not closed");
    text + &plain(rest)
}

fn check_attributes(attributes: &str) {
    let mut rest = attributes.trim();
    while !rest.is_empty() {
        let (name, value) = rest.split_once("=\"").unwrap_or_else(|| panic!("not quoted: {rest}"));
        assert!(ATTRIBUTES.contains(&name), "attribute {name}");
        let (value, after) = value.split_once('"').unwrap_or_else(|| panic!("not closed: {rest}"));
        assert!(!value.contains("://") && !value.contains("javascript"), "{value}");
        rest = after.trim_start();
    }
}

/// Resolves the five entities that are used.
fn plain(text: &str) -> String {
    let pieces = text.split('&');
    let mut plain = String::new();
    for (index, piece) in pieces.enumerate() {
        if index == 0 {
            plain.push_str(piece);
            continue;
        }
        let (entity, after) = piece.split_once(';').unwrap_or_else(|| panic!("a bare & before {piece:.40}"));
        plain.push(match entity {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "#39" => '\'',
            other => panic!("&{other};"),
        });
        plain.push_str(after);
    }
    plain
}

#[test]
fn the_checker_sees_what_is_wrong() {
    let checked = |body: &str| {
        let html = format!("<!DOCTYPE html><html lang=\"en\">{body}</html>");
        std::panic::catch_unwind(|| text_of(&html)).map(|text| text.trim().to_owned())
    };
    assert_eq!(checked("<p>a&lt;b</p>").unwrap(), "a<b");
    for wrong in [
        "<p>",
        "<p></q>",
        "</p>",
        "<script></script>",
        "<p onclick=\"x\"></p>",
        "<p class=x></p>",
        "a > b",
        "&nbsp;",
        "a & b",
    ] {
        assert!(checked(wrong).is_err(), "{wrong}");
    }
}
