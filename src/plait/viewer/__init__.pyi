from plait.viewer.app import Viewer as Viewer
from plait.viewer.app import ViewerOptions as ViewerOptions
from plait.viewer.app import guarded_app as guarded_app
from plait.viewer.app import open_viewer as open_viewer
from plait.viewer.connected import CheckFinding as CheckFinding
from plait.viewer.connected import ConnectedServers as ConnectedServers
from plait.viewer.sections import ReportRenderer as ReportRenderer
