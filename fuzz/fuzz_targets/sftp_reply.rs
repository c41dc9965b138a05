//! Answers of an SFTP server: greetings and replies.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|packet: &[u8]| {
    hakobu_endpoints::sftp::fuzz_reply(packet);
});
