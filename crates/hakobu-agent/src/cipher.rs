//! Which cipher data connections get: each of them is timed on both machines, for milliseconds at most, and the fastest for
//! the two is taken.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use hakobu_core::units::format_rate;
use hakobu_proto::control::{Cipher, CipherSpeed};

use hakobu_core::request::CipherChoice;

/// The content of a TLS record, which is what is encrypted at a time.
const RECORD_BYTES: usize = 16 * 1024;
/// So many records are timed at a time: they stay in a core's cache, as the pieces of a run do.
const RECORDS: usize = 8;
/// The ciphers take turns so often; the best turn of each counts, as others only take time away.
const TURNS: usize = 4;
/// No more turns after this time: a processor without instructions for AES takes long.
const LIMIT: Duration = Duration::from_millis(6);

/// Bytes a second that one core of this machine encrypts, found out once.
pub fn here() -> CipherSpeed {
    static SPEED: OnceLock<CipherSpeed> = OnceLock::new();
    *SPEED.get_or_init(measured)
}

/// Finds it out aside, so that it is there when it is asked for.
pub(crate) fn begin() {
    let _when_asked_for = std::thread::Builder::new().name("cipher speed".to_owned()).spawn(here);
}

fn measured() -> CipherSpeed {
    let mut content = vec![0x5a; RECORD_BYTES];
    let algorithms = [&AES_128_GCM, &AES_256_GCM, &CHACHA20_POLY1305];
    let keys = algorithms.map(key);
    let mut best = [Duration::MAX; 3];
    let began = Instant::now();
    for turn in 0..TURNS {
        for (key, best) in keys.iter().zip(&mut best) {
            if let Some(key) = key {
                *best = turn_of(key, &mut content).min(*best);
            }
        }
        if turn > 0 && began.elapsed() > LIMIT {
            break;
        }
    }
    let [aes_128_gcm, aes_256_gcm, chacha20_poly1305] = best.map(bytes_per_second);
    CipherSpeed { aes_128_gcm, aes_256_gcm, chacha20_poly1305 }
}

/// A key for nothing but this.
fn key(algorithm: &'static Algorithm) -> Option<LessSafeKey> {
    let bytes = vec![7; algorithm.key_len()];
    UnboundKey::new(algorithm, &bytes).ok().map(LessSafeKey::new)
}

fn turn_of(key: &LessSafeKey, content: &mut [u8]) -> Duration {
    let began = Instant::now();
    for _ in 0..RECORDS {
        // What it gives is of no use to anybody, so one nonce does.
        let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
        if key.seal_in_place_separate_tag(nonce, Aad::empty(), content).is_err() {
            return Duration::MAX;
        }
    }
    began.elapsed()
}

fn bytes_per_second(turn: Duration) -> u64 {
    match turn {
        Duration::MAX => 0,
        turn => ((RECORD_BYTES * RECORDS) as f64 / turn.as_secs_f64().max(1e-9)) as u64,
    }
}

/// A cipher has to be faster than those before it by this factor: a busy machine times none of them well.
const WORTH: f64 = 1.1;

/// The fastest cipher for both ends, of which the slower one counts, and the figures that say so.
pub(crate) fn fastest(source: CipherSpeed, target: CipherSpeed) -> (Cipher, String) {
    let speeds = |of: CipherSpeed| {
        [
            (Cipher::Aes128Gcm, of.aes_128_gcm),
            (Cipher::Chacha20Poly1305, of.chacha20_poly1305),
            (Cipher::Aes256Gcm, of.aes_256_gcm),
        ]
    };
    let mut best = (Cipher::Aes128Gcm, 0);
    let mut figures = Vec::new();
    for ((cipher, at_source), (_, at_target)) in speeds(source).into_iter().zip(speeds(target)) {
        let slower = at_source.min(at_target);
        if slower as f64 > best.1 as f64 * WORTH {
            best = (cipher, slower);
        }
        let [at_source, at_target] = [at_source, at_target].map(|speed| format_rate(speed as f64));
        figures.push(format!("{} {at_source} and {at_target}", name(cipher)));
    }
    let why = format!("what one core does at the source and at the target: {}", figures.join(", "));
    (best.0, why)
}

/// The cipher's name on the command line and in reports.
pub(crate) fn name(cipher: Cipher) -> &'static str {
    match cipher {
        Cipher::Aes128Gcm => CipherChoice::Aes128Gcm,
        Cipher::Aes256Gcm => CipherChoice::Aes256Gcm,
        Cipher::Chacha20Poly1305 => CipherChoice::ChaCha20Poly1305,
        Cipher::None => CipherChoice::None,
    }
    .name()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITH_AES: CipherSpeed =
        CipherSpeed { aes_128_gcm: 5_000, aes_256_gcm: 4_000, chacha20_poly1305: 1_500 };
    const WITHOUT: CipherSpeed = CipherSpeed { aes_128_gcm: 200, aes_256_gcm: 150, chacha20_poly1305: 1_000 };

    #[test]
    fn the_slower_machine_decides() {
        let chosen = |source, target| fastest(source, target).0;
        assert_eq!(chosen(WITH_AES, WITH_AES), Cipher::Aes128Gcm);
        assert_eq!(chosen(WITH_AES, WITHOUT), Cipher::Chacha20Poly1305);
        assert_eq!(chosen(WITHOUT, WITH_AES), Cipher::Chacha20Poly1305);
        // Noise decides nothing.
        let noise = CipherSpeed { aes_256_gcm: 5_400, ..WITH_AES };
        assert_eq!(chosen(noise, noise), Cipher::Aes128Gcm);
        // A machine that says nothing.
        assert_eq!(chosen(CipherSpeed::default(), WITHOUT), Cipher::Aes128Gcm);
    }

    #[test]
    fn the_reason_has_the_figures_of_both() {
        let why = fastest(WITH_AES, WITHOUT).1;
        assert!(why.contains("aes-128-gcm 5.00 kB/s and 200 B/s, chacha20-poly1305 1.50 kB/s and"), "{why}");
    }

    #[test]
    fn every_cipher_is_timed() {
        let CipherSpeed { aes_128_gcm, aes_256_gcm, chacha20_poly1305 } = here();
        for speed in [aes_128_gcm, aes_256_gcm, chacha20_poly1305] {
            assert!((1_000_000..1_000_000_000_000).contains(&speed), "{speed} bytes a second");
        }
    }
}
