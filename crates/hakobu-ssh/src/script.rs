//! The command line that ssh runs on the remote host.
//!
//! The login shell may be sh, bash, zsh, csh, tcsh or fish, so it receives only `sh -c '…' words`, and inside the
//! quotes there is nothing that any of them interprets: no quote, no `!` (history in csh), no newline, no doubled
//! backslash (fish). It is a command and not input for a shell, so that a forced command in `authorized_keys`
//! (`command="hakobu agent"`) gets a clean standard input and works as well.

/// The prefix of the script's own lines. No banner prints a NUL followed by this.
pub(super) const MARK: &[u8] = b"\0hakobu:";

/// The script with its comments. Its lines are joined by blanks, so each ends where a blank may follow.
const SOURCE: &str = r##"
# Tools must speak plain English and bytes.
LC_ALL=C; export LC_ALL; sudo=$1; nice=$3; low=;
say() { printf "\000hakobu:%s\n" "$*"; };
fail() { say fail "$@"; exit 1; };

# Becomes the agent; with sudo, starts it and stays beside it. sudo asks for the password on its standard error, which
# is why that goes through a loop that turns the question into a line for the near side and lets all else pass.
go() {
  if [ "$nice" = 1 ] && command -v nice >/dev/null 2>&1; then low="nice -n 19"; fi;
  if [ "$sudo" = 0 ] || [ "$(id -u)" = 0 ]; then exec $low "$1" agent; fi;
  command -v sudo >/dev/null 2>&1 || fail no-sudo;
  ask=$(printf "%s\n." hakobu-asks-for-the-sudo-password); ask=${ask%.};
  exec 3>&1;
  $low sudo -S -p "$ask" -- "$1" agent 2>&1 >&3 3>&- | while IFS= read -r line; do
    case "$line" in
      *hakobu-asks-for-the-sudo-password*) say password;;
      *) printf "%s\n" "$line" >&2;;
    esac;
  done;
  exit 0;
};

# First the program that is there: at the path that was asked for, else on PATH. The path comes in octal where it is
# not plain; the x keeps newlines at its end.
path=hakobu; found=; missing=0;
if [ -n "$4" ]; then path=$(printf "%bx" "$4"); path=${path%x}; missing=1; fi;
case "$path" in "~/"*) path=$HOME/${path#??};; esac;
if [ "$2" = 0 ]; then
  case "$path" in */*) found=$path;; *) found=$(command -v "$path" 2>/dev/null);; esac;
  if [ -f "$found" ] && [ -x "$found" ]; then go "$found"; fi;
  if [ -n "$4" ] && [ -e "$found" ]; then fail not-executable; fi;
fi;

# There is none: ask for it. The answer is its size and SHA-256, then the program; or the end, when there is none to send.
say need "$missing" "$(uname -s)" "$(uname -m)" "$(uname -r)";
read -r size sum || exit 1;

# Is this a directory to run it from? Tried out, not guessed: something is run there, and the room is really taken.
# The file is then open and already removed, so that nothing stays behind whenever and however this ends.
tried=;
try() {
  if [ -z "$1" ]; then return 1; fi;
  case "$tried" in *" $1 ("*) return 1;; esac;
  dir=; why="not there";
  [ -d "$1" ] && why="not writable" && dir=$(mktemp -d "$1/hakobu.XXXXXXXXXX") && file=$dir/hakobu &&
  why="no room" && printf "#\041/bin/sh\nexit 0\n" >"$file" && chmod 700 "$file" &&
  why="forbids execution" && "$file" &&
  why="no room" && head -c "$size" /dev/zero >"$file" && exec 9<>"$file" &&
  why="nothing can be removed there" && rm "$file" && rmdir "$dir" && return 0;
  exec 9>&-;
  if [ -n "$dir" ]; then rm -rf "$dir"; fi;
  tried="$tried $1 ($why),";
  return 1;
} 2>/dev/null;
place=;
for place in "$XDG_RUNTIME_DIR" "$TMPDIR" /tmp /var/tmp "$HOME" /dev/shm "/run/user/$(id -u)" ""; do
  if try "$place"; then break; fi;
done;
if [ -z "$place" ]; then fail no-place "$tried"; fi;

# Take it in. A file that is open for writing cannot be run, hence the second opening, for reading.
me=/proc/$$/fd;
head -c "$size" >"$me/9" || fail no-room "$place";
exec 8<"$me/9"; exec 9>&-;
if [ "$(wc -c <"$me/8")" -ne "$size" ]; then fail short; fi;
if command -v sha256sum >/dev/null 2>&1; then
  got=$(sha256sum <"$me/8"); if [ "${got%% *}" != "$sum" ]; then fail digest; fi;
fi;
go "$me/8";
"##;

/// Returns the command line for the remote host.
///
/// `sudo`: the agent runs under sudo · `upload`: no installed program is searched for, one is always requested ·
/// `nice`: the agent runs with the lowest priority · `agent_path`: the path to use instead of searching PATH; `~/` is
/// the remote home directory.
pub(super) fn command_line((sudo, upload, nice): (bool, bool, bool), agent_path: Option<&[u8]>) -> String {
    let [sudo, upload, nice] = [sudo, upload, nice].map(u8::from);
    let mut line = format!("sh -c '{}' hakobu {sudo} {upload} {nice}", assembled());
    if let Some(path) = agent_path {
        line.push_str(" '");
        line.push_str(&encoded(path));
        line.push('\'');
    }
    line
}

/// Returns the script as one line.
fn assembled() -> String {
    let lines = SOURCE.lines().map(str::trim);
    let code: Vec<&str> = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    code.join(" ")
}

/// Encodes bytes for printf's `%b`, without anything that a shell could interpret.
fn encoded(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for &byte in path {
        if byte.is_ascii_alphanumeric() || b"/._-+,:@%=~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("\\0{byte:03o}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_shell_finds_anything_to_read_inside_the_quotes() {
        let script = assembled();
        for forbidden in ["'", "\n", "\\\\", "\\'", "# "] {
            assert!(!script.contains(forbidden), "{forbidden:?} in {script}");
        }
        // csh leaves `!` alone only before a blank, a tab, `=` and `(`.
        for (at, _) in script.match_indices('!') {
            assert_eq!(script.as_bytes()[at + 1], b'=', "{}", &script[at..]);
        }
    }

    #[test]
    fn a_path_is_encoded_byte_by_byte() {
        assert_eq!(encoded(b"/opt/hakobu-1.0/bin"), "/opt/hakobu-1.0/bin");
        assert_eq!(encoded(b"a'b!\\\n\xff"), r"a\0047b\0041\0134\0012\0377");
    }

    #[test]
    fn options_become_words() {
        let line = command_line((true, false, false), Some(b"~/my agent"));
        assert!(line.ends_with(r"' hakobu 1 0 0 '~/my\0040agent'"), "{line}");
        assert!(command_line((false, true, true), None).ends_with("' hakobu 0 1 1"));
    }
}
