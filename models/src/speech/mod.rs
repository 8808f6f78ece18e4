//! Speech models: voice activity (Silero) and recognition (Moonshine).
