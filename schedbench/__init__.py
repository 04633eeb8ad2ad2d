"""Replay traces of LLM requests through vLLM's V1 scheduler, pass by pass and exactly."""
