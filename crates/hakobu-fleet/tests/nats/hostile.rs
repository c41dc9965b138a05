//! Brokers that send what they should not, as raw messages.
