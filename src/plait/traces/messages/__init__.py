"""Messages that look the same whichever engine ran: pure values, and their JSON."""
